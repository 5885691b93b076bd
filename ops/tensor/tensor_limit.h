// How large a tensor may become, and all of them together. A few bytes of a hostile file could ask
// for any size; operators and loops refuse what is above the limit before they allocate it.
#ifndef BEAMWRIGHT_OPS_TENSOR_TENSOR_LIMIT_H_
#define BEAMWRIGHT_OPS_TENSOR_TENSOR_LIMIT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace beamwright::ops {

// kMaxTensorBytes, or less while a TensorLimit of this thread or a MemoryLimit lives.
int64_t MaxTensorBytes();
// ResourceExhausted: `what` is larger than MaxTensorBytes().
absl::Status TooLarge(absl::string_view what);

// Bytes of all tensors and packed weights of the process.
int64_t HeldBytes();
// Called where they are allocated or freed.
void CountHeld(int64_t bytes);

// Memory of another kind, counted among them.
class HeldMemory {
 public:
  explicit HeldMemory(size_t bytes) : bytes_(static_cast<int64_t>(bytes)) { CountHeld(bytes_); }
  ~HeldMemory() { CountHeld(-bytes_); }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

 private:
  int64_t bytes_;
};

// While it lives, a tensor is refused that does not fit in addition to what is held: for a program
// that runs one graph, since it counts the whole process. One at a time.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

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
