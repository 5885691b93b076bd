// Reserved: what requests hold of what an engine has, as the admission counts it. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_RESERVED_H_
#define BEAMWRIGHT_ENGINE_REQUEST_RESERVED_H_

#include <cstdint>

namespace beamwright::engine {

struct Reserved {
  int requests = 0;
  int rows = 0;
  int64_t bytes = 0;

  Reserved& operator+=(const Reserved& other) {
    requests += other.requests;
    rows += other.rows;
    bytes += other.bytes;
    return *this;
  }
  Reserved& operator-=(const Reserved& other) {
    requests -= other.requests;
    rows -= other.rows;
    bytes -= other.bytes;
    return *this;
  }
};

// Of all of them; `requests` holds pointers.
template <typename Requests>
Reserved ReservedFor(const Requests& requests) {
  Reserved sum;
  for (const auto& request : requests) {
    sum += request->reserved();
  }
  return sum;
}

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_RESERVED_H_
