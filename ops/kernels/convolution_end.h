// What follows a convolution element by element, its bias and its activation, while a part of the
// result is still in the cache. In no file: nodes behind a convolution join it when a graph is
// compiled (ops/passes/convolution_fusion.cc). The functions are those of the operators, and so are
// the bits.
#ifndef BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_END_H_
#define BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_END_H_

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/kernels/chain_functions.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// Immutable, and thread-safe.
class ConvolutionEnd {
 public:
  // chain: value 0 is the convolution's, the next ones are `constants`, each f32 of one element or
  // of one for each of `channels`; its one result is the last function's. InvalidArgument for
  // others.
  static absl::StatusOr<ConvolutionEnd> Make(const ChainOptions& chain,
                                             absl::Span<const Tensor* const> constants,
                                             int64_t channels);

  // Puts results in the place of `count` elements of one channel.
  void Run(int64_t channel, float* values, int64_t count) const;
  // The same for whole results [items, channels, positions] of few positions, on up to num_threads
  // threads.
  void RunPlanes(int num_threads, int64_t items, int64_t positions, float* values) const;

 private:
  // A function. Operands: values of the chain.
  struct Step {
    ElementApply of_channel;   // for elements of one channel
    ElementApply of_channels;  // for elements of several
    int64_t first;
    int64_t second;
    std::array<float, 2> bounds;
  };

  bool IsConstant(int64_t value) const {
    return value > 0 && value <= static_cast<int64_t>(constants_.size());
  }
  // The number, if the value is a constant with one number for all channels.
  std::optional<float> NumberOf(int64_t value) const;
  // The operand that is a constant, and the other one; nothing: none is, or both are.
  std::optional<std::pair<int64_t, int64_t>> ConstantAndOther(
      const ChainOptions::Function& function) const;
  absl::StatusOr<Step> StepOf(const ChainOptions::Function& function) const;
  bool TakeBias(const ChainOptions& chain);
  bool TakeClamp(const ChainOptions& chain);
  bool TakeHardSwish(const ChainOptions& chain);
  // Steps from `first` on. constants: what they read of each, one number or, of_channels, `count`.
  void RunSteps(size_t first, absl::Span<const float* const> constants, float* values,
                int64_t count, bool of_channels) const;

  std::vector<std::vector<float>> constants_;
  std::vector<Step> steps_;  // all functions
  int64_t channels_ = 0;
  // Elements of one channel: 1. a bias; 2. a hard swish, or bounds; 3. steps from `done_` on.
  int64_t bias_ = 0;  // a value of the chain; 0: none
  std::array<float, 2> bounds_ = ChainOptions::kNoBounds;
  std::optional<HardSwish> swish_;
  int64_t done_ = 0;  // functions in 1. and 2.: what the last one gives is in the values' place
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_CONVOLUTION_END_H_
