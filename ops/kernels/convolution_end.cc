// The element-wise functions that follow a convolution, such as a bias and an activation, applied
// to its sums while they are in the cache instead of in a pass over the whole output.
//
// Make takes a chain of functions (ChainOptions) whose first operand is the convolution's output
// and whose other operands are constants: numbers, or one number per channel.
//
// 1. TakeBias, TakeHardSwish and TakeClamp recognise the usual ends: y + bias; y clamp(y + 3, 0, 6)
//    / 6; ReLU and Clamp. These are one loop (AddAndClamp, ApplyHardSwish).
// 2. Other functions are steps that run over blocks of kBlock elements (RunSteps), one function
//    after another, with results in a scratch buffer.
//
// Run is for one channel's values: every constant is a number then. RunPlanes is for whole planes
// [channels, positions], of few positions each, where calls per channel would be short: the
// constants are spread to one per element, so that blocks need not end with channels.
//
// A function may be taken into the fused beginning only if no later one reads what comes before it
// (ReadsBefore).
#include "ops/kernels/convolution_end.h"

#include <algorithm>
#include <limits>

#include "ops/base/status.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kBlock = 512;     // elements that pass through all steps at a time
constexpr int64_t kWorkOfStep = 4;  // multiply-adds that a step of an element is worth

// Whether functions from number `from` on read a value from before function from - 1, that is, the
// convolution's output or the result of an earlier function.
bool ReadsBefore(const ChainOptions& chain, int64_t num_inputs, int64_t from) {
  return std::any_of(chain.functions.begin() + from, chain.functions.end(),
                     [&](const ChainOptions::Function& function) {
                       const auto is_before = [&](int64_t value) {
                         return value == 0 ||
                                (value >= num_inputs && value < num_inputs + from - 1);
                       };
                       return is_before(function.first) || is_before(function.second);
                     });
}

}  // namespace

std::optional<float> ConvolutionEnd::NumberOf(int64_t value) const {
  if (!IsConstant(value) || constants_[static_cast<size_t>(value - 1)].size() != 1) {
    return std::nullopt;
  }
  return constants_[static_cast<size_t>(value - 1)][0];
}

std::optional<std::pair<int64_t, int64_t>> ConvolutionEnd::ConstantAndOther(
    const ChainOptions::Function& function) const {
  if (function.second < 0 || IsConstant(function.first) == IsConstant(function.second)) {
    return std::nullopt;
  }
  return IsConstant(function.first) ? std::pair(function.first, function.second)
                                    : std::pair(function.second, function.first);
}

bool ConvolutionEnd::TakeBias(const ChainOptions& chain) {
  const ChainOptions::Function& function = chain.functions[0];
  const auto operands = ConstantAndOther(function);
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if (function.op != "Add" || !operands.has_value() || ReadsBefore(chain, num_inputs, 1)) {
    return false;
  }
  bias_ = operands->first;
  return true;
}

bool ConvolutionEnd::TakeClamp(const ChainOptions& chain) {
  if (done_ == static_cast<int64_t>(chain.functions.size())) {
    return false;
  }
  const ChainOptions::Function& function = chain.functions[static_cast<size_t>(done_)];
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if ((function.op != "ReLU" && function.op != "Clamp") ||
      ReadsBefore(chain, num_inputs, done_ + 1)) {
    return false;
  }
  bounds_ = function.op == "Clamp"
                ? function.bounds
                : std::array<float, 2>{0.0f, std::numeric_limits<float>::infinity()};
  return true;
}

// y * clamp(y + shift) / last, or * last.
bool ConvolutionEnd::TakeHardSwish(const ChainOptions& chain) {
  constexpr int64_t kFunctions = 4;
  const auto num_inputs = static_cast<int64_t>(constants_.size()) + 1;
  if (static_cast<int64_t>(chain.functions.size()) < done_ + kFunctions ||
      ReadsBefore(chain, num_inputs, done_ + kFunctions)) {
    return false;
  }
  const ChainOptions::Function* const f = chain.functions.data() + done_;
  const int64_t y = done_ == 0 ? 0 : num_inputs + done_ - 1;
  const int64_t given = num_inputs + done_;  // what f[0] gives
  const auto shift = ConstantAndOther(f[0]);
  const auto last = ConstantAndOther(f[3]);
  const bool multiplies = f[2].op == "Multiply" && std::min(f[2].first, f[2].second) == y &&
                          std::max(f[2].first, f[2].second) == given + 1;
  if (f[0].op != "Add" || !shift.has_value() || shift->second != y ||
      !NumberOf(shift->first).has_value() || f[1].op != "Clamp" || f[1].first != given ||
      !multiplies || !last.has_value() || last->second != given + 2 ||
      !NumberOf(last->first).has_value()) {
    return false;
  }
  const bool divides = f[3].op == "Divide" && f[3].second == last->first;
  if (!divides && f[3].op != "Multiply") {
    return false;
  }
  swish_ = {*NumberOf(shift->first), f[1].bounds[0], f[1].bounds[1], *NumberOf(last->first),
            divides};
  done_ += kFunctions;
  return true;
}

absl::StatusOr<ConvolutionEnd::Step> ConvolutionEnd::StepOf(
    const ChainOptions::Function& function) const {
  const bool first = IsConstant(function.first);
  const bool second = IsConstant(function.second);
  if (first && (second || function.second < 0)) {
    return Invalid("a function of a convolution's end reads constants alone");
  }
  const ElementFunction& found = *FindElementFunction(function.op);
  const auto choose = [&](bool first_is_one, bool second_is_one) {
    return first_is_one ? found.first_is_one : second_is_one ? found.second_is_one : found.apply;
  };
  return Step{choose(first, second),
              choose(NumberOf(function.first).has_value(), NumberOf(function.second).has_value()),
              function.first, function.second, function.bounds};
}

absl::StatusOr<ConvolutionEnd> ConvolutionEnd::Make(const ChainOptions& chain,
                                                    absl::Span<const Tensor* const> constants,
                                                    int64_t channels) {
  ConvolutionEnd end;
  for (const Tensor* const constant : constants) {
    if (constant == nullptr || constant->dtype() != DType::kF32 ||
        (constant->num_elements() != 1 && constant->num_elements() != channels)) {
      return Invalid("constants of a convolution's end must be known, f32, of one element or one ",
                     "for each channel");
    }
    end.constants_.emplace_back(constant->data<float>(),
                                constant->data<float>() + constant->num_elements());
  }
  const auto count = static_cast<int64_t>(chain.functions.size());
  if (chain.windows.size() != constants.size() + 1 || count == 0 || chain.results.size() != 1 ||
      chain.results[0] != count - 1) {
    return Invalid("a convolution's end must have one result, that of its last function");
  }
  for (const ChainOptions::Function& function : chain.functions) {
    BW_ASSIGN_OR_RETURN(const Step step, end.StepOf(function));
    end.steps_.push_back(step);
  }
  end.channels_ = channels;
  end.done_ = end.TakeBias(chain) ? 1 : 0;
  if (!end.TakeHardSwish(chain) && end.TakeClamp(chain)) {
    ++end.done_;
  }
  return end;
}

void ConvolutionEnd::RunSteps(size_t first, absl::Span<const float* const> constants, float* values,
                              int64_t count, bool of_channels) const {
  alignas(64) float scratch[kMostChainValues][kBlock];
  const float* operands[kMostChainValues];
  const size_t num_inputs = constants.size() + 1;
  operands[0] = values;
  std::copy(constants.begin(), constants.end(), operands + 1);
  if (first > 0) {
    operands[num_inputs + first - 1] = values;
  }
  const float* last = values;
  for (size_t i = first; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const float* const second =
        step.second < 0 ? step.bounds.data() : operands[static_cast<size_t>(step.second)];
    const ElementApply apply = of_channels ? step.of_channels : step.of_channel;
    apply(operands[static_cast<size_t>(step.first)], second, count, scratch[i - first]);
    last = scratch[i - first];
    operands[num_inputs + i] = last;
  }
  std::copy_n(last, count, values);
}

void ConvolutionEnd::RunPlanes(int num_threads, int64_t items, int64_t positions,
                               float* values) const {
  // 1. Constants of channels, an element for each position, so that blocks know no channels.
  const int64_t size = channels_ * positions;
  std::vector<std::vector<float>> spread(constants_.size());
  for (size_t i = 0; i < constants_.size(); ++i) {
    for (int64_t channel = 0; constants_[i].size() > 1 && channel < channels_; ++channel) {
      spread[i].insert(spread[i].end(), static_cast<size_t>(positions),
                       constants_[i][static_cast<size_t>(channel)]);
    }
  }
  // 2. Blocks of an item.
  const int64_t blocks = CeilDiv(size, kBlock);
  const auto work = static_cast<int64_t>(steps_.size()) * kWorkOfStep;
  ParallelFor(num_threads, items * blocks, items * size * work, [&](int64_t index) {
    const int64_t first = index % blocks * kBlock;
    const float* constants[kMostChainValues];
    for (size_t i = 0; i < spread.size(); ++i) {
      constants[i] = spread[i].empty() ? constants_[i].data() : spread[i].data() + first;
    }
    RunSteps(0, absl::MakeConstSpan(constants, spread.size()),
             values + index / blocks * size + first, std::min(kBlock, size - first),
             /*of_channels=*/true);
  });
}

void ConvolutionEnd::Run(int64_t channel, float* values, int64_t count) const {
  const bool biased = bias_ > 0;
  float bias = 0;
  if (biased) {
    const std::vector<float>& biases = constants_[static_cast<size_t>(bias_ - 1)];
    bias = biases[biases.size() == 1 ? 0 : static_cast<size_t>(channel)];
  }
  if (swish_.has_value()) {
    ApplyHardSwish(*swish_, biased, bias, count, values);
  } else if (biased) {
    AddAndClamp(bias, bounds_[0], bounds_[1], count, values);
  } else if (bounds_ != ChainOptions::kNoBounds) {
    // Nothing is added: -0 + 0 would be 0.
    AddAndClamp(-0.0f, bounds_[0], bounds_[1], count, values);
  }
  const auto done = static_cast<size_t>(done_);
  if (done == steps_.size()) {
    return;
  }
  const float* constants[kMostChainValues];
  for (size_t i = 0; i < constants_.size(); ++i) {
    constants[i] = constants_[i].data() + (constants_[i].size() == 1 ? 0 : channel);
  }
  for (int64_t first = 0; first < count; first += kBlock) {
    RunSteps(done, absl::MakeConstSpan(constants, constants_.size()), values + first,
             std::min(kBlock, count - first), /*of_channels=*/false);
  }
}

}  // namespace beamwright::ops
