// Deferred constants: tensors whose elements are made when they are first read, from a file or from
// other constants, and may be forgotten until they are read again. A model's weights are each
// packed once, so that loading needs not hold all of them together with what is made of them.
//
// A thread that loads a model opens a DeferredScope. Inside, large constants are deferred, and
// ForgetIdle, called where no code holds a pointer to elements, lets go of those that were read.
// Finish ends this: what is still in use has its elements from then on, and files are closed.
#ifndef BEAMWRIGHT_OPS_TENSOR_DEFERRED_H_
#define BEAMWRIGHT_OPS_TENSOR_DEFERRED_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_TENSOR_DEFERRED_H_
