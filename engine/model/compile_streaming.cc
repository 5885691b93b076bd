// An encoder that reads chunk by chunk: a graph (chunk, states) -> (frames, next states). Before it
// is compiled (PrepareStreaming):
//
// 1. SetSource fixes the extents of a chunk: [rows, chunk, width], or [rows, width, chunk].
// 2. FindStates pairs inputs and results by name. SetState fixes the shape of each state and finds
//    the axis that counts rows, which exports have anywhere: RowsAxis takes the configured axis,
//    else the only dynamic one, else the first 1.
// 3. States whose rows are not first are transposed inside the graph (MoveRowsFirst), so that
//    states of many streams are stacked along axis 0, and StartOf makes the state of a new stream.
//
// After it is compiled (CheckStreaming):
//
// 4. A state must be written with the type and shape with which it is read.
// 5. SelfCheckChunks: two chunks of three random streams, alone and together. Results and states
//    must have the same bits; otherwise streams are encoded one by one (encoder.apart says why).
//
// FramesOfChunk is what the search learns from step 5: how many frames come of a chunk.
#include "engine/model/compile_streaming.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/model/model_inputs.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/self_check.h"
#include "ops/decoder/step_form.h"

namespace beamwright::engine {

// A run of an encoder over the next chunks of several streams. Each stream keeps its own states;
// RunChunks stacks them along the rows' axis, and NextStates cuts one stream's states out of the
// run's results again and checks that the encoder wrote them as it reads them.

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

namespace {

using ops::PartialShape;
using ops::Tensor;

constexpr char kField[] = "encoder.streaming";

// The logarithm of the least energy that features of sound have (engine/sound/fbank.h).
constexpr float kSilence = -15.942385F;

// Which of `nodes`, Parameters or Results, has this name; -1: none.
int FindPort(const ops::Graph& graph, const std::vector<int>& nodes, const std::string& name) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (PortName(graph, nodes[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::string NamesOf(const ops::Graph& graph, const std::vector<int>& nodes) {
  return absl::StrJoin(nodes, ", ", [&graph](std::string* out, int node) {
    absl::StrAppend(out, "'", PortName(graph, node), "'");
  });
}

// Fixes the source's extents.
absl::Status SetSource(const v1::EncoderConfig& config, ops::Graph& graph, EncoderPart& encoder) {
  StreamingPart& streaming = *encoder.streaming;
  ops::ValueInfo& info =
      graph.node(graph.parameters[static_cast<size_t>(encoder.input)]).outputs[0];
  const std::string name = PortName(graph, graph.parameters[static_cast<size_t>(encoder.input)]);
  encoder.length_axis = config.length_axis() == 2 ? 2 : 1;
  streaming.width_first = encoder.length_axis == 2;
  const int width_axis = 3 - encoder.length_axis;
  if (info.dtype != ops::DType::kF32 || !info.shape.has_rank() || info.shape.rank() != 3 ||
      info.shape.dim(width_axis) == PartialShape::kDynamic) {
    return status::InvalidField(
        kField, "the encoder reads '", name, "' ", ops::Name(info.dtype), info.shape.ToString(),
        "; chunks are f32 [rows, chunk, width], or [rows, width, chunk] with length_axis 2, and "
        "the graph must state the width");
  }
  const int64_t chunk = info.shape.dim(encoder.length_axis);
  if (chunk != PartialShape::kDynamic && chunk != streaming.chunk) {
    return status::InvalidField(absl::StrCat(kField, ".chunk"), streaming.chunk,
                                " frames; the graph reads ", chunk, " ('", name, "' ",
                                info.shape.ToString(), ")");
  }
  streaming.width = info.shape.dim(width_axis);
  ops::Shape dims = info.shape.dims();
  dims[static_cast<size_t>(encoder.length_axis)] = streaming.chunk;
  info.shape = PartialShape(std::move(dims));
  return absl::OkStatus();
}

// The axis of a state that counts rows.
absl::StatusOr<int> RowsAxis(const v1::EncoderStateConfig& config, const std::string& field,
                             const PartialShape& shape) {
  if (config.has_rows_axis()) {
    if (config.rows_axis() >= shape.rank()) {
      return status::InvalidField(field + ".rows_axis", config.rows_axis(), " is not an axis of '",
                                  config.input(), "' ", shape.ToString());
    }
    return config.rows_axis();
  }
  int found = -1;
  for (const int64_t wanted : {PartialShape::kDynamic, int64_t{1}}) {
    const auto count = std::count(shape.dims().begin(), shape.dims().end(), wanted);
    if (count == 1 || (count > 1 && wanted == 1)) {
      found = static_cast<int>(std::find(shape.dims().begin(), shape.dims().end(), wanted) -
                               shape.dims().begin());
      break;
    }
    if (count > 1) {
      break;
    }
  }
  if (found < 0) {
    return status::InvalidField(field + ".rows_axis", "is not set, and '", config.input(), "' ",
                                shape.ToString(), " does not state it");
  }
  return found;
}

// Fixes a state's extents, all but that of its rows, and returns the axis of these.
absl::StatusOr<int> SetState(const v1::EncoderStateConfig& config, const std::string& field,
                             ops::ValueInfo& info) {
  const PartialShape graph_shape = info.shape;
  if (!graph_shape.has_rank() && config.shape().empty()) {
    return status::InvalidField(field + ".shape", "is not set, and the graph leaves the shape of '",
                                config.input(), "' open");
  }
  ops::Shape dims(config.shape().begin(), config.shape().end());
  if (dims.empty()) {
    dims = graph_shape.dims();
  }
  if (graph_shape.has_rank() && graph_shape.rank() != static_cast<int>(dims.size())) {
    return status::InvalidField(field + ".shape", ops::ToString(dims), " has ", dims.size(),
                                " axes; '", config.input(), "' is ", graph_shape.ToString());
  }
  if (dims.empty()) {
    return status::InvalidField(field, "'", config.input(), "' has no axis that counts rows");
  }
  BW_ASSIGN_OR_RETURN(
      const int axis,
      RowsAxis(config, field, graph_shape.has_rank() ? graph_shape : PartialShape(dims)));
  const ops::Shape given = dims;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    int64_t& dim = dims[static_cast<size_t>(i)];
    const int64_t own = graph_shape.has_rank() ? graph_shape.dim(i) : PartialShape::kDynamic;
    if (i == axis) {
      dim = own;
      continue;
    }
    if (own != PartialShape::kDynamic && dim != own) {
      return status::InvalidField(field + ".shape", ops::ToString(given), "; '", config.input(),
                                  "' is ", graph_shape.ToString());
    }
    if (dim < 0 || dim > (int64_t{1} << 31)) {
      return status::InvalidField(field + ".shape",
                                  dim < 0 ? "must state extent " : "is too large at extent ", i,
                                  " of '", config.input(), "' ", graph_shape.ToString());
    }
  }
  info.shape = PartialShape(std::move(dims));
  return axis;
}

absl::StatusOr<Tensor> StartOf(const v1::EncoderStateConfig& config, const std::string& field,
                               const ops::ValueInfo& info) {
  constexpr int64_t kMostElements = int64_t{1} << 28;
  ops::Shape shape = info.shape.dims();
  shape[0] = 1;
  const absl::StatusOr<int64_t> count = ops::CheckedNumElements(shape);
  if (!count.ok() || *count > kMostElements) {
    return status::InvalidField(field, "'", config.input(), "' ", ops::ToString(shape),
                                " is larger than a state may be, ", kMostElements, " elements");
  }
  Tensor start(ops::DType::kF32, shape);
  std::fill_n(start.mutable_data<float>(), start.num_elements(), config.constant());
  return Convert(start, info.dtype);
}

absl::Status FindStates(const v1::EncoderConfig& config, ops::Graph& graph, EncoderPart& encoder) {
  std::vector<ops::StepState> to_move;  // whose rows are not first
  for (int i = 0; i < config.streaming().states_size(); ++i) {
    const v1::EncoderStateConfig& given = config.streaming().states(i);
    const std::string field = absl::StrCat(kField, ".states[", i, "]");
    StreamingPart::State& state = encoder.streaming->states.emplace_back();
    state.input = FindPort(graph, graph.parameters, given.input());
    state.result = FindPort(graph, graph.results, given.output());
    if (state.input < 0) {
      return status::InvalidField(field + ".input", "the encoder has no input '", given.input(),
                                  "'; it has ", NamesOf(graph, graph.parameters));
    }
    if (state.input == encoder.input || state.input == encoder.length_input) {
      return status::InvalidField(field + ".input", "'", given.input(), "' is the source ",
                                  "or its length");
    }
    if (state.result < 0) {
      return status::InvalidField(field + ".output", "the encoder has no result '", given.output(),
                                  "'; it has ", NamesOf(graph, graph.results));
    }
    ops::ValueInfo& info =
        graph.node(graph.parameters[static_cast<size_t>(state.input)]).outputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, SetState(given, field, info));
    if (axis > 0) {
      to_move.push_back({state.input, state.result, axis});
    }
  }
  ops::MoveRowsFirst(graph, to_move);
  for (size_t i = 0; i < encoder.streaming->states.size(); ++i) {
    StreamingPart::State& state = encoder.streaming->states[i];
    const int node = graph.parameters[static_cast<size_t>(state.input)];
    BW_ASSIGN_OR_RETURN(state.start, StartOf(config.streaming().states(static_cast<int>(i)),
                                             absl::StrCat(kField, ".states[", i, "]"),
                                             graph.node(node).outputs[0]));
  }
  return absl::OkStatus();
}

// Random values like `like`, [streams, ...].
Tensor RandomLike(ops::DType dtype, ops::Shape shape, int64_t streams, std::mt19937& random) {
  shape[0] = streams;
  Tensor values(ops::DType::kF32, std::move(shape));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    values.mutable_data<float>()[i] = uniform(random);
  }
  const absl::StatusOr<Tensor> converted = Convert(values, dtype);
  return converted.ok() ? *converted : values;
}

// States and results of one stream after a run.
struct OneOf {
  StreamStates states;
  std::vector<Tensor> results;  // its own, by result
};

absl::StatusOr<std::vector<OneOf>> RunTogether(const ops::ExecutionContext& context,
                                               const EncoderPart& encoder, const Tensor& chunks,
                                               absl::Span<const StreamStates* const> states) {
  std::vector<Tensor> outputs;
  ChunkWorkspace workspace;
  BW_RETURN_IF_ERROR(RunChunks(context, encoder, chunks, states, workspace, outputs));
  const auto count = static_cast<int64_t>(states.size());
  std::vector<OneOf> all(states.size());
  for (int64_t row = 0; row < count; ++row) {
    OneOf& own = all[static_cast<size_t>(row)];
    BW_ASSIGN_OR_RETURN(own.states, NextStates(encoder, outputs, count, row, {}));
    for (size_t i = 0; i < outputs.size(); ++i) {
      BW_ASSIGN_OR_RETURN(Tensor result, ResultOfSource(encoder, outputs, count, row,
                                                        static_cast<int>(i), "self-check"));
      own.results.push_back(std::move(result));
    }
  }
  return all;
}

bool SameBits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return ops::SameBits(x, y); });
}

// Runs two chunks of three streams, alone and together, and compares the bits.
absl::Status SelfCheckChunks(const ops::ExecutionContext& context, EncoderPart& encoder) {
  constexpr int64_t kStreams = 3;
  std::mt19937 random(20063);
  StreamingPart& streaming = *encoder.streaming;
  std::vector<StreamStates> states(kStreams, StartStates(streaming));
  for (int run = 0; run < 2; ++run) {
    const Tensor chunks =
        RandomLike(ops::DType::kF32, encoder.source_info().shape.dims(), kStreams, random);
    std::vector<OneOf> alone;
    std::vector<const StreamStates*> all;
    for (int64_t row = 0; row < kStreams; ++row) {
      const StreamStates* const own = &states[static_cast<size_t>(row)];
      all.push_back(own);
      BW_ASSIGN_OR_RETURN(std::vector<OneOf> one,
                          RunTogether(context, encoder, chunks.Rows(row, row + 1), {&own, 1}));
      alone.push_back(std::move(one[0]));
    }
    if (encoder.apart.empty()) {
      const auto together = RunTogether(context, encoder, chunks, all);
      if (!together.ok()) {
        encoder.apart = std::string(together.status().message());
      }
      for (size_t row = 0; encoder.apart.empty() && row < alone.size(); ++row) {
        if (!SameBits(alone[row].states, (*together)[row].states) ||
            !SameBits(alone[row].results, (*together)[row].results)) {
          encoder.apart = "the self-check found that streams change bits of others";
        }
      }
    }
    streaming.result_shapes.clear();
    for (const Tensor& result : alone[0].results) {
      streaming.result_shapes.push_back(result.shape());
    }
    for (size_t row = 0; row < alone.size(); ++row) {
      states[row] = std::move(alone[row].states);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareStreaming(const v1::EncoderConfig& config, ops::Graph& graph,
                              EncoderPart& encoder) {
  StreamingPart& streaming = encoder.streaming.emplace();
  streaming.chunk = config.streaming().chunk();
  streaming.shift = config.streaming().shift() > 0 ? config.streaming().shift() : streaming.chunk;
  streaming.tail = config.streaming().tail();
  streaming.silence = config.streaming().has_silence() ? config.streaming().silence() : kSilence;
  BW_RETURN_IF_ERROR(SetSource(config, graph, encoder));
  return FindStates(config, graph, encoder);
}

absl::Status CheckStreaming(const ops::ExecutionContext& context, EncoderPart& encoder) {
  const ops::Graph& graph = encoder.model->graph();
  encoder.apart = encoder.proof.reason;
  const std::vector<StreamingPart::State>& states = encoder.streaming->states;
  for (size_t i = 0; i < states.size(); ++i) {
    const StreamingPart::State& state = states[i];
    const ops::ValueInfo& read = encoder.info_of(state.input);
    const ops::ValueInfo& written = ops::InfoOfResult(graph, state.result);
    bool fits = read.dtype == written.dtype &&
                (!written.shape.has_rank() || written.shape.rank() == read.shape.rank());
    for (int axis = 1; fits && written.shape.has_rank() && axis < read.shape.rank(); ++axis) {
      const int64_t extent = written.shape.dim(axis);
      fits = extent == PartialShape::kDynamic || extent == read.shape.dim(axis);
    }
    if (!fits) {
      return status::InvalidField(
          absl::StrCat(kField, ".states[", i, "]"), "'",
          PortName(graph, graph.parameters[static_cast<size_t>(state.input)]), "' is read as ",
          ops::Name(read.dtype), read.shape.ToString(), ", but '",
          PortName(graph, graph.results[static_cast<size_t>(state.result)]), "' writes ",
          ops::Name(written.dtype), written.shape.ToString(),
          " (rows first); a state keeps its type and shape");
    }
    if (encoder.apart.empty() &&
        encoder.proof.result_axes[static_cast<size_t>(state.result)] != 0) {
      encoder.apart = absl::StrCat(
          "state '", PortName(graph, graph.parameters[static_cast<size_t>(state.input)]),
          "' does not count rows where it is written as it does where it is read");
    }
  }
  return Annotate(SelfCheckChunks(context, encoder), "it fails on random chunks");
}

absl::StatusOr<int64_t> FramesOfChunk(const EncoderPart& encoder, int result, int frame_axis) {
  const ops::Graph& graph = encoder.model->graph();
  const ops::Shape& shape = encoder.streaming->result_shapes[static_cast<size_t>(result)];
  const std::string name = PortName(graph, graph.results[static_cast<size_t>(result)]);
  if (shape.size() != 3) {
    return Invalid("the encoder's frames, '", name, "', are ", ops::ToString(shape),
                   " for one chunk; they must be [rows, frames, width]");
  }
  const int64_t frames = shape[static_cast<size_t>(frame_axis)];
  if (frames == 0) {
    return status::InvalidField(kField, "no frame comes of a chunk of ", encoder.streaming->chunk,
                                ": '", name, "' is ", ops::ToString(shape));
  }
  return frames;
}

}  // namespace beamwright::engine
