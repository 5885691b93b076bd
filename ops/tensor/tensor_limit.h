// How large a tensor may become. A few bytes of a hostile file could ask for any size; operators
// and loops refuse what is above the limit before they allocate it.
#ifndef BEAMWRIGHT_OPS_TENSOR_TENSOR_LIMIT_H_
#define BEAMWRIGHT_OPS_TENSOR_TENSOR_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

// kMaxTensorBytes, or less while a TensorLimit of this thread lives.
int64_t MaxTensorBytes();
// ResourceExhausted: `what` is larger than MaxTensorBytes().
absl::Status TooLarge(absl::string_view what);

// Lowers the limit for what this thread computes, not for threads that it starts meanwhile. Inside
// another one the lower of both holds.
class TensorLimit {
 public:
  explicit TensorLimit(int64_t bytes);
  ~TensorLimit();
  TensorLimit(const TensorLimit&) = delete;
  TensorLimit& operator=(const TensorLimit&) = delete;

 private:
  int64_t outside_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_TENSOR_LIMIT_H_
