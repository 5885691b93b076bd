// Promise 1 of the README, checked on the very graph, kernels and machine that will serve: random
// values go through the encoder and the step alone and together, and every bit must agree. What may
// run together at all is proven on the graphs (ops/compile/row_proof.h, row_plan.h); this is the
// second line of defence, against a rule or a kernel that is wrong.
#include "ops/decoder/self_check.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "engine/model/compile_graphs.h"
#include "engine/model/model_inputs.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

using ops::PartialShape;
using ops::Tensor;

// What the encoder is checked with.
constexpr int64_t kSources = 3;

// Random content for a Parameter; unknown extents become `extent`, the first axis `rows`.
Tensor RandomTensor(const ops::ValueInfo& info, int64_t rows, int64_t extent, int limit,
                    std::mt19937& random) {
  ops::Shape shape = info.shape.dims();
  for (int64_t& dim : shape) {
    dim = dim == PartialShape::kDynamic ? extent : dim;
  }
  if (!shape.empty()) {
    shape[0] = rows;
  }
  Tensor values(ops::DType::kF32, shape);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const float value = uniform(random);
    values.mutable_data<float>()[i] =
        ops::IsFloat(info.dtype)
            ? 2 * value - 1
            : static_cast<float>(static_cast<int>(value * static_cast<float>(limit)));
  }
  absl::StatusOr<Tensor> converted = ops::Convert(values, info.dtype);
  return converted.ok() ? *converted : values;
}

// The axis along which `together` counts kSources sources where `alone` has one; -1 if both have
// the same shape, nothing if neither holds.
std::optional<int> RowAxis(const Tensor& alone, const Tensor& together) {
  if (alone.rank() != together.rank()) {
    return std::nullopt;
  }
  int found = -1;
  for (int axis = 0; axis < alone.rank(); ++axis) {
    if (alone.dim(axis) == together.dim(axis)) {
      continue;
    }
    if (found >= 0 || alone.dim(axis) != 1 || together.dim(axis) != kSources) {
      return std::nullopt;
    }
    found = axis;
  }
  return found;
}

// What an encoder reads, of any number of sources.
struct Trial {
  Tensor sources;
  std::vector<Tensor> further;  // one for each of encoder.further_inputs

  Trial Row(int64_t row) const {
    Trial alone = {sources.Rows(row, row + 1), {}};
    for (const Tensor& input : further) {
      alone.further.push_back(input.Rows(row, row + 1));
    }
    return alone;
  }
};

absl::StatusOr<std::vector<Tensor>> RunEncoder(const ops::ExecutionContext& context,
                                               const EncoderPart& encoder, const Trial& trial,
                                               absl::Span<const int64_t> lengths = {}) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs,
                      EncoderInputs(encoder, trial.sources, trial.further, lengths));
  std::vector<Tensor> outputs;
  BW_RETURN_IF_ERROR(encoder.model->Run(context, inputs, outputs));
  return outputs;
}

Tensor RandomFurther(const EncoderPart& encoder, const FurtherInput& input, int64_t rows,
                     int64_t length, std::mt19937& random) {
  return RandomTensor(encoder.info_of(input.input), rows, length, input.table_rows == 1 ? 1 : 2,
                      random);
}

Trial RandomTrial(const EncoderPart& encoder, int64_t rows, int64_t length, int num_tokens,
                  std::mt19937& random) {
  Trial trial;
  trial.sources =
      RandomTensor(encoder.source_info(), rows, length, std::max(num_tokens, 1), random);
  for (const FurtherInput& input : encoder.further_inputs) {
    trial.further.push_back(RandomFurther(encoder, input, rows, length, random));
  }
  return trial;
}

// Which further inputs must be as long as the source: those that the encoder refuses otherwise.
void FindFollowers(const ops::ExecutionContext& context, EncoderPart& encoder, int num_tokens) {
  std::mt19937 random(20062);
  for (size_t i = 0; i < encoder.further_inputs.size(); ++i) {
    FurtherInput& input = encoder.further_inputs[i];
    const PartialShape& shape = encoder.info_of(input.input).shape;
    if (shape.rank() < 2 || shape.dim(1) != PartialShape::kDynamic) {
      continue;
    }
    Trial trial = RandomTrial(encoder, 1, encoder.trial_length, num_tokens, random);
    trial.further[i] = RandomFurther(encoder, input, 1, encoder.trial_length + 2, random);
    input.follows_source = !RunEncoder(context, encoder, trial).ok();
  }
}

// Whether the outputs of kSources sources together are those of source `row` alone, on the axes
// that the proof names.
bool SameRow(absl::Span<const int> axes, const std::vector<Tensor>& alone,
             const std::vector<Tensor>& together, int64_t row) {
  for (size_t i = 0; i < alone.size(); ++i) {
    const std::optional<int> axis = RowAxis(alone[i], together[i]);
    if (axis != axes[i] ||
        !ops::SameBits(alone[i], *axis < 0 ? together[i] : TakeRow(together[i], *axis, row))) {
      return false;
    }
  }
  return true;
}

// Fails only if a single source of this length can't be encoded. Else says in `apart` why sources
// are encoded one at a time, nothing if they are not.
absl::Status CheckEncoder(const ops::ExecutionContext& context, const EncoderPart& encoder,
                          int64_t length, int num_tokens, std::mt19937& random,
                          std::string& apart) {
  const ops::RowProof& proof = encoder.proof;
  const Trial sources = RandomTrial(encoder, kSources, length, num_tokens, random);
  apart = proof.reason;
  absl::StatusOr<std::vector<Tensor>> together = std::vector<Tensor>();
  if (proof.separable) {
    together = RunEncoder(context, encoder, sources);
    apart = std::string(together.status().message());
  }
  for (int64_t row = 0; row < kSources; ++row) {
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> alone,
                        RunEncoder(context, encoder, sources.Row(row)));
    if (apart.empty() && !SameRow(proof.result_axes, alone, *together, row)) {
      apart = "the self-check found that sources change bits of others";
    }
  }
  return absl::OkStatus();
}

// Why sources of unequal length change each other, or themselves; nothing if they do not.
std::string WhyLengthsChangeBits(const ops::ExecutionContext& context, const EncoderPart& encoder,
                                 int64_t longest, int num_tokens) {
  std::mt19937 random(20064);
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < kSources; ++row) {
    lengths.push_back(std::max<int64_t>(longest - row * (row + 1) / 2, 1));
  }
  // What stands behind a source's end may be anything.
  const Trial all = RandomTrial(encoder, kSources, longest, num_tokens, random);
  const auto together = RunEncoder(context, encoder, all, lengths);
  if (!together.ok()) {
    return std::string(together.status().message());
  }
  for (int64_t row = 0; row < kSources; ++row) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    Trial one = all.Row(row);
    one.sources = TakeFront(one.sources, encoder.length_axis, length);
    const auto alone = RunEncoder(context, encoder, one);
    if (!alone.ok()) {
      return std::string(alone.status().message());
    }
    for (size_t i = 0; i < alone->size(); ++i) {
      const auto own = ResultOfSource(encoder, *together, kSources, row, static_cast<int>(i),
                                      "self-check", length);
      if (!own.ok() || !ops::SameBits((*alone)[i], *own)) {
        return "the self-check found that sources of unequal length change bits";
      }
    }
  }
  return "";
}

absl::Status Start(const ops::ExecutionContext& context, const DecoderPart& decoder, int64_t length,
                   int num_tokens, std::mt19937& random, StartValues& start) {
  std::vector<Tensor> inputs;
  if (decoder.encoder != nullptr) {
    const EncoderPart& encoder = *decoder.encoder;
    const Trial trial = RandomTrial(encoder, 1, length, num_tokens, random);
    const int64_t own = trial.sources.rank() > encoder.length_axis
                            ? trial.sources.dim(encoder.length_axis)
                            : length;  // the graph may fix it
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoded, RunEncoder(context, encoder, trial));
    BW_ASSIGN_OR_RETURN(inputs, DecoderInputs(decoder, encoded, 1, 0, own));
  } else {
    for (const DecoderInput& input : decoder.inputs) {
      const ops::ValueInfo& info = decoder.decoder.node(input.node).outputs[0];
      inputs.push_back(RandomTensor(info, 1, length, 2, random));
    }
  }
  return Prepare(decoder, context, inputs, start);
}

bool HaveStatesOfOneShape(const StartValues& a, const StartValues& b) {
  return std::equal(a.states.begin(), a.states.end(), b.states.begin(), b.states.end(),
                    [](const Tensor& x, const Tensor& y) { return x.shape() == y.shape(); });
}

// Steps of two requests with sources of different lengths, together and alone. The encoder has
// taken the shorter length; where it does not take the longer, or states are as long as the source,
// so that a step never has both lengths (beam/step_runner.h), both have the shorter.
absl::StatusOr<bool> CheckSteps(const ops::ExecutionContext& context, const DecoderPart& decoder,
                                int num_tokens) {
  std::mt19937 random(20061);
  const int64_t length =
      decoder.encoder == nullptr ? kTrialLengths[0] : decoder.encoder->trial_length;
  StartValues shorter;
  StartValues longer;
  BW_RETURN_IF_ERROR(Start(context, decoder, length, num_tokens, random, shorter));
  if (!Start(context, decoder, length + 2, num_tokens, random, longer).ok() ||
      !HaveStatesOfOneShape(shorter, longer)) {
    longer = StartValues();
    BW_RETURN_IF_ERROR(Start(context, decoder, length, num_tokens, random, longer));
  }
  return StepsTogetherAsAlone(context, decoder, shorter, longer);
}

// Whether sources of more than kLongestTrial positions are tried: raw sound, whose positions are
// numbers. Attention over that many positions of anything else would need too much memory.
bool MayBeLong(const EncoderPart& encoder) {
  const ops::ValueInfo& info = encoder.source_info();
  return ops::IsFloat(info.dtype) && info.shape.has_rank() && info.shape.rank() == 2;
}

// In the order in which they are tried. Behind kTrialLengths those between: windows may need more
// positions than the first, and a table of positions may end before the second.
std::vector<int> LengthsToTry(const EncoderPart& encoder) {
  std::vector<int> lengths;
  for (const int length : kTrialLengths) {
    if (length <= kLongestTrial || MayBeLong(encoder)) {
      lengths.push_back(length);
    }
  }
  for (int length = kLongestTrial / 2; length > kTrialLengths[0]; length /= 2) {
    lengths.push_back(length);
  }
  return lengths;
}

// The least length of a source that the encoder can read, above `fails`, at most `works`. 1 where
// the graph fixes it: nothing else is accepted then.
int64_t LeastLength(const ops::ExecutionContext& context, const EncoderPart& encoder, int64_t fails,
                    int64_t works, int num_tokens) {
  const PartialShape& shape = encoder.source_info().shape;
  if (!shape.has_rank() || shape.rank() <= encoder.length_axis ||
      shape.dim(encoder.length_axis) != PartialShape::kDynamic) {
    return 1;
  }
  std::mt19937 random(20065);
  const auto can_read = [&](int64_t length) {
    return RunEncoder(context, encoder, RandomTrial(encoder, 1, length, num_tokens, random)).ok();
  };
  if (fails == 0 && can_read(1)) {
    return 1;
  }
  for (fails = std::max<int64_t>(fails, 1); works - fails > 1;) {
    const int64_t middle = fails + (works - fails) / 2;
    (can_read(middle) ? works : fails) = middle;
  }
  return works;
}

}  // namespace

bool FailsOn(const ops::ExecutionContext& context, const EncoderPart& encoder, int64_t length,
             int num_tokens) {
  std::mt19937 random(20066);
  return !RunEncoder(context, encoder, RandomTrial(encoder, 1, length, num_tokens, random)).ok();
}

absl::Status SelfCheck(const ops::ExecutionContext& context, EncoderPart& encoder, int num_tokens) {
  std::mt19937 random(20061);
  absl::Status shorter;
  std::set<int64_t> failed = {0};
  for (const int length : LengthsToTry(encoder)) {
    absl::Status status = CheckEncoder(context, encoder, length, num_tokens, random, encoder.apart);
    if (status.ok()) {
      encoder.trial_length = length;
      encoder.least_length =
          LeastLength(context, encoder, *std::prev(failed.lower_bound(length)), length, num_tokens);
      FindFollowers(context, encoder, num_tokens);
      ops::LengthProof& lengths = encoder.proof.lengths;
      if (encoder.apart.empty() && lengths.holds) {
        lengths.reason = WhyLengthsChangeBits(context, encoder, length, num_tokens);
        lengths.holds = lengths.reason.empty();
      }
      return status;
    }
    if (shorter.ok()) {
      shorter = status;
    }
    failed.insert(length);
  }
  return Annotate(shorter, absl::StrCat("it fails on random sources of ", *failed.rbegin(),
                                        " positions and of ", kTrialLengths[0]));
}

namespace {

// Whether a state is a number of integers to which each step adds.
bool IsCount(const DecoderPart& decoder, size_t state) {
  const ops::Loop& loop = decoder.body->loop();
  const ops::LoopInput& input = loop.inputs[static_cast<size_t>(decoder.body->carried()[state])];
  const int result = loop.body.results[static_cast<size_t>(input.back_edge)];
  const ops::Node& next = loop.body.node(loop.body.node(result).inputs[0].node);
  const int parameter = loop.body.parameters[static_cast<size_t>(input.body_parameter)];
  return next.op == "Add" && next.inputs[0] == ops::ValueId{parameter, 0} &&
         IsInteger(loop.body.node(parameter).outputs[0].dtype);
}

// Whether the decoder takes step number `number`, counted from 0, with states that have grown so
// far.
bool TakesStep(const ops::ExecutionContext& context, const DecoderPart& decoder,
               const StartValues& from, int64_t number) {
  StartValues start = from;
  start.values.CountSteps(number);
  for (size_t i = 0; i < start.states.size(); ++i) {
    if (const int axis = decoder.body->growing_axis(i); axis >= 0) {
      ops::Shape shape = start.states[i].shape();
      shape[static_cast<size_t>(axis)] += number;
      start.states[i] = Tensor::Zeros(start.states[i].dtype(), shape);
    } else if (IsCount(decoder, i)) {
      const std::vector<int64_t> counts(static_cast<size_t>(start.states[i].num_elements()),
                                        number);
      start.states[i] =
          Convert(Tensor::Of<int64_t>(start.states[i].shape(), counts), start.states[i].dtype())
              .value_or(start.states[i]);
    }
  }
  ops::LoopBody::RequestValues* const values = &start.values;
  const int rows = 1;
  const int32_t parent = 0;
  const Tensor token = decoder.TokenTensor({0});
  ops::LoopBody::RowScratch scratch;
  std::vector<Tensor> results;
  return decoder.body
      ->StepRows(context, {{&values, 1}, {&rows, 1}, {&parent, 1}, {&token, 1}}, scratch,
                 start.states, results)
      .ok();
}

// The most steps that a decoder takes: a table of positions may end. What is tried holds states of
// a bounded size.
int MostSteps(const ops::ExecutionContext& context, const DecoderPart& decoder,
              const StartValues& start) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  constexpr int64_t kMostTried = 4096;  // a mask may grow with the square
  int64_t bytes = 1;                    // of the states of one step
  for (size_t i = 0; i < start.states.size(); ++i) {
    if (const int axis = decoder.body->growing_axis(i); axis >= 0) {
      ops::Shape shape = start.states[i].shape();
      shape[static_cast<size_t>(axis)] = 1;
      bytes += ops::NumElements(shape) * ops::SizeOf(start.states[i].dtype());
    }
  }
  int64_t works = 0;
  int64_t fails = std::min<int64_t>(kMostTried, std::max<int64_t>(kMostBytes / bytes, 1)) + 1;
  if (TakesStep(context, decoder, start, fails - 2)) {
    return static_cast<int>(fails - 1);
  }
  while (fails - works > 1) {
    const int64_t middle = works + (fails - works) / 2;
    (TakesStep(context, decoder, start, middle - 1) ? works : fails) = middle;
  }
  return static_cast<int>(works);
}

}  // namespace

void FindMostSteps(const ops::ExecutionContext& context, DecoderPart& decoder, int num_tokens) {
  if (!decoder.body->counts_steps()) {
    return;
  }
  std::mt19937 random(20061);
  const int64_t length =
      decoder.encoder == nullptr ? kTrialLengths[0] : decoder.encoder->trial_length;
  StartValues start;
  if (Start(context, decoder, length, num_tokens, random, start).ok()) {
    decoder.most_steps = MostSteps(context, decoder, start);
  }
}

void SelfCheck(const ops::ExecutionContext& context, DecoderPart& decoder, int num_tokens) {
  if (!decoder.body->plan().separable) {
    return;
  }
  const absl::StatusOr<bool> same = CheckSteps(context, decoder, num_tokens);
  if (!same.ok() || !*same) {
    decoder.body->ForceRowByRow(same.ok() ? "the self-check found that stacked rows change bits"
                                          : std::string(same.status().message()));
  }
}

}  // namespace beamwright::engine
