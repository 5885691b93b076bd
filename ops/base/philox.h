// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): random numbers as a function of a key and a counter. There is no state that could be
// advanced by another request, so what is drawn cannot depend on other draws.
#ifndef BEAMWRIGHT_OPS_BASE_PHILOX_H_
#define BEAMWRIGHT_OPS_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace beamwright {

using PhiloxCounter = std::array<uint32_t, 4>;

inline PhiloxCounter Philox(PhiloxCounter counter, uint64_t key) {
  uint32_t key_low = static_cast<uint32_t>(key);
  uint32_t key_high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key_low,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key_high,
               static_cast<uint32_t>(product0)};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

// Uniform in (0, 1), never 0 or 1: 52 bits of the counter's first two words, and a half.
inline double PhiloxUniform(const PhiloxCounter& counter, uint64_t key) {
  const PhiloxCounter bits = Philox(counter, key);
  const uint64_t whole = (uint64_t{bits[0]} << 20) | (bits[1] >> 12);
  return (static_cast<double>(whole) + 0.5) * 0x1p-52;
}

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_PHILOX_H_
