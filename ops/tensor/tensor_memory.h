// Memory of tensors: how large they may become, and constants whose elements are made when they are
// first read.
#ifndef BEAMWRIGHT_OPS_TENSOR_TENSOR_MEMORY_H_
#define BEAMWRIGHT_OPS_TENSOR_TENSOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// How large a tensor may become, and all of them together. A few bytes of a hostile file could ask
// for any size; operators and loops refuse what is above the limit before they allocate it.

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

// Deferred constants: tensors whose elements are made when they are first read, from a file or from
// other constants, and may be forgotten until they are read again. A model's weights are each
// packed once, so that loading needs not hold all of them together with what is made of them.
//
// A thread that loads a model opens a DeferredScope. Inside, large constants are deferred, and
// ForgetIdle, called where no code holds a pointer to elements, lets go of those that were read.
// Finish ends this: what is still in use has its elements from then on, and files are closed.

// Writes all elements of a constant; called again when they were forgotten, on any thread, and
// gives the same ones each time.
using FillElements = std::function<absl::Status(std::byte* out)>;

class DeferredSession;

// One for a thread; inside another one it does nothing, and the outer one goes on.
class DeferredScope {
 public:
  DeferredScope();
  ~DeferredScope();  // as Finish
  DeferredScope(const DeferredScope&) = delete;
  DeferredScope& operator=(const DeferredScope&) = delete;

  // The first error of checks, or of making elements, which then are zeros: what was computed of
  // them must not be used. Call it when everything is compiled. The scope is over then.
  absl::Status Finish();

 private:
  std::shared_ptr<DeferredSession> session_;  // null: inside another scope, or finished
};

// Whether a constant of this size is deferred where this is called.
bool IsDeferred(int64_t bytes);

// A constant of these elements: made at once, unless IsDeferred.
absl::StatusOr<Tensor> MakeConstant(DType dtype, const Shape& shape, const FillElements& fill);

// While one lives, nothing of the scope that is open where it was made is forgotten: other threads
// read elements as well.
class ForgettingPaused {
 public:
  ForgettingPaused();
  ~ForgettingPaused();
  ForgettingPaused(const ForgettingPaused&) = delete;
  ForgettingPaused& operator=(const ForgettingPaused&) = delete;

 private:
  const std::shared_ptr<DeferredSession> session_;  // null: no scope is open
};

// Starts a check of what is being loaded on another thread, for which Finish waits; its error goes
// before those of elements. False, and nothing is started: no scope is open here, or no thread can
// be had.
bool CheckMeanwhile(std::function<absl::Status()> check);

// Forgets elements of deferred constants if many were read: on the thread of the scope, where
// no code holds a pointer to elements. Tensors stay as they are.
void ForgetIdle();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TENSOR_TENSOR_MEMORY_H_
