// Logits with more columns than there are tokens. Models are often trained with a number of columns
// that suits their hardware, a multiple of 8 to 128, and leave the last ones without a token.
#ifndef BEAMWRIGHT_OPS_DECODER_PADDED_LOGITS_H_
#define BEAMWRIGHT_OPS_DECODER_PADDED_LOGITS_H_

#include <cstdint>

namespace beamwright::ops {

// Whether the columns beyond `tokens` may be such padding; many would be another vocabulary's.
inline bool ArePadded(int64_t columns, int64_t tokens) {
  const int64_t rest = columns - tokens;
  return tokens > 0 && rest > 0 && rest < 1024 && rest <= tokens / 8 && columns % 8 == 0;
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_PADDED_LOGITS_H_
