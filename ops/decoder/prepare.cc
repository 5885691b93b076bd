// What a request's steps start from, and what they read. Prepare runs the prologue, the part of the
// decoder that does not depend on tokens, over the request's inputs, and takes first states and
// invariants out of its results. FillTokens makes the step's token input; AllScores multiplies with
// the vocabulary's matrix where the step leaves that out.
#include <algorithm>

#include "ops/base/status.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/loop/model.h"

namespace beamwright::ops {

Tensor SteppedDecoder::TokenTensor(absl::Span<const int32_t> tokens) const {
  Tensor tensor;
  FillTokens(tokens, tensor);
  return tensor;
}

void SteppedDecoder::FillTokens(absl::Span<const int32_t> tokens, Tensor& tensor) const {
  Shape shape = token_shape;
  std::replace(shape.begin(), shape.end(), int64_t{-1}, static_cast<int64_t>(tokens.size()));
  tensor.Resize(token_dtype, shape);
  if (token_dtype == DType::kI32) {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int32_t>());
  } else {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int64_t>());
  }
}

absl::Status Prepare(const SteppedDecoder& decoder, const ExecutionContext& context,
                     absl::Span<const Tensor> inputs, StartValues& start) {
  Slots slots = decoder.prologue.MakeSlots();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int node = decoder.input_nodes[i];
    BW_RETURN_IF_ERROR(CheckParameter(decoder.decoder, node, inputs[i]));
    slots[static_cast<size_t>(decoder.prologue.slot({node, 0}))] = inputs[i];
  }
  if (decoder.prologue_measures_tokens) {
    // Initial states may be made to the target's measures: one row.
    slots[static_cast<size_t>(decoder.prologue.slot({decoder.token_node, 0}))] =
        decoder.TokenTensor({0});
  }
  BW_RETURN_IF_ERROR(decoder.prologue.Run(context, slots));
  const auto read = [&](const std::vector<ValueId>& values) {
    std::vector<Tensor> tensors;
    for (const ValueId value : values) {
      tensors.push_back(value.present() ? slots[static_cast<size_t>(decoder.prologue.slot(value))]
                                        : Tensor());
    }
    return tensors;
  };
  start.states = read(decoder.state_values);
  for (size_t i = 0; i < start.states.size(); ++i) {
    if (start.states[i].rank() < 1 || start.states[i].dim(0) != 1) {
      return Invalid("initial state ", i, " is ", ToString(start.states[i].shape()),
                     "; its first axis must count rows");
    }
  }
  BW_RETURN_IF_ERROR(decoder.body->Bind(context, read(decoder.invariant_values), start.values));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto count =
        std::find(decoder.count_nodes.begin(), decoder.count_nodes.end(), decoder.input_nodes[i]);
    if (count != decoder.count_nodes.end()) {
      BW_ASSIGN_OR_RETURN(const std::vector<int64_t> first, ToInt64(inputs[i]));
      start.values.counts[static_cast<size_t>(count - decoder.count_nodes.begin())] = first.at(0);
    }
  }
  return absl::OkStatus();
}

const Tensor& AllScores(const SteppedDecoder& decoder, const ExecutionContext& context,
                        const Tensor& result, Tensor& scores) {
  if (decoder.projection == nullptr) {
    return result;
  }
  const int64_t depth = decoder.projection->depth();
  const int64_t vocabulary = decoder.projection->vocabulary();
  const int64_t rows = result.num_elements() / depth;
  scores.Resize(DType::kF32, {rows, vocabulary});
  decoder.projection->Scores(context, {result.data<float>(), rows, depth, depth},
                             {scores.mutable_data<float>(), rows, vocabulary, vocabulary});
  return scores;
}

}  // namespace beamwright::ops
