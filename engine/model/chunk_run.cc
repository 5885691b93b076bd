// A run of an encoder over the next chunks of several streams. Each stream keeps its own states;
// RunChunks stacks them along the rows' axis, and NextStates cuts one stream's states out of the
// run's results again and checks that the encoder wrote them as it reads them.
#include "engine/model/chunk_run.h"

#include <cstring>
#include <utility>

#include "engine/model/model_inputs.h"
#include "ops/base/status.h"

namespace beamwright::engine {

using ops::Tensor;

StreamStates StartStates(const StreamingPart& streaming) {
  StreamStates states;
  for (const StreamingPart::State& state : streaming.states) {
    states.push_back(state.start);
  }
  return states;
}

absl::Status RunChunks(const ops::ExecutionContext& context, const EncoderPart& encoder,
                       Tensor chunks, absl::Span<const StreamStates* const> states,
                       ChunkWorkspace& workspace, std::vector<Tensor>& outputs) {
  BW_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, EncoderInputs(encoder, std::move(chunks)));
  const std::vector<StreamingPart::State>& parts = encoder.streaming->states;
  workspace.stacked.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& first = (*states[0])[i];
    ops::Shape shape = first.shape();
    shape[0] = static_cast<int64_t>(states.size());
    Tensor& stacked = workspace.stacked[i];
    stacked.Resize(first.dtype(), shape);
    for (size_t row = 0; row < states.size(); ++row) {
      std::memcpy(stacked.mutable_bytes() + static_cast<int64_t>(row) * first.num_bytes(),
                  (*states[row])[i].bytes(), static_cast<size_t>(first.num_bytes()));
    }
    inputs[static_cast<size_t>(parts[i].input)] = stacked;
  }
  return Annotate(encoder.model->Run(context, inputs, workspace.model, outputs), "encoder");
}

absl::StatusOr<StreamStates> NextStates(const EncoderPart& encoder,
                                        absl::Span<const Tensor> outputs, int64_t num_streams,
                                        int64_t row, StreamStates old) {
  StreamStates states = std::move(old);
  states.resize(encoder.streaming->states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const StreamingPart::State& state = encoder.streaming->states[i];
    const Tensor& all = outputs[static_cast<size_t>(state.result)];
    ops::Shape expected = state.start.shape();
    expected[0] = num_streams;
    if (all.shape() != expected || all.dtype() != state.start.dtype()) {
      const ops::Graph& graph = encoder.model->graph();
      return absl::InternalError(
          absl::StrCat("the encoder read state '",
                       PortName(graph, graph.parameters[static_cast<size_t>(state.input)]), "' as ",
                       ops::Name(state.start.dtype()), ops::ToString(expected), " and wrote it as ",
                       ops::Name(all.dtype()), ops::ToString(all.shape()), ", rows first"));
    }
    expected[0] = 1;
    states[i].Resize(all.dtype(), expected);
    std::memcpy(states[i].mutable_bytes(), all.bytes() + row * states[i].num_bytes(),
                static_cast<size_t>(states[i].num_bytes()));
  }
  return states;
}

}  // namespace beamwright::engine
