#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "tools/bundle/encoder_input.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {

// Encoders with states. Exports for streams pass states from chunk to chunk, and exports of
// recurrent networks often take the initial state as an input. The server encodes a whole source at
// once, so such inputs must become zeros inside the graph, if that is right.
//
// 1. FindEncoderStates pairs inputs with outputs by names that are alike but for words such as
//    "new"; FindInitialStates finds inputs that only start a recurrent layer.
// 2. CheckWholeSource refuses encoders for which one call over all frames is not what chunks give:
//    those that read a fixed number of frames, and those whose states count, or cache what has been
//    read.
// 3. StartAtZero changes the ONNX file: each state's input is replaced by nodes that make zeros
//    with as many rows as the source has (AddZeros), and its output is dropped.

namespace {

using ops::PartialShape;
using ops::Port;
using ops::Ports;

constexpr absl::string_view kInstead =
    ", and its metadata does not say how it reads chunks (T and decode_chunk_len, or window_size "
    "and chunk_shift). Add that, or write encoder.streaming into the bundle yourself "
    "(docs/bundle.md), or export the encoder for whole utterances (icefall: export-onnx.py instead "
    "of export-onnx-streaming.py; NeMo: without cache_support), or run it where the frames are "
    "made, and make the bundle without it (init DECODER JOINER): requests then bring its frames";

const Port* FindInput(const Ports& inputs, const EncoderState& state) {
  return ops::FindPort(inputs, state.input);
}

bool IsState(absl::Span<const EncoderState> states, const std::string& input) {
  return std::any_of(states.begin(), states.end(),
                     [&](const EncoderState& state) { return state.input == input; });
}

absl::Status Refuse(absl::string_view why) {
  return Invalid("this encoder is made for streams: ", why, kInstead);
}

onnx::TensorProto Integers(const std::string& name, absl::Span<const int64_t> values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) {
    tensor.add_int64_data(value);
  }
  return tensor;
}

onnx::NodeProto& AddNode(const char* op, const std::vector<std::string>& inputs,
                         const std::string& output, std::vector<onnx::NodeProto>& nodes) {
  onnx::NodeProto& node = nodes.emplace_back();
  node.set_op_type(op);
  node.set_name(absl::StrCat("whole_source/", op, "/", output));
  for (const std::string& input : inputs) {
    node.add_input(input);
  }
  node.add_output(output);
  return node;
}

void AddAxis0(onnx::NodeProto& node) {
  onnx::AttributeProto& axis = *node.add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  axis.set_i(0);
}

// The axis of a state that counts rows: the open one, or, in a file for one row only, the axis
// after layers, [layers, rows, width]. -1: it is not clear.
int RowAxis(const PartialShape& shape) {
  int axis = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) == PartialShape::kDynamic) {
      if (axis >= 0) {
        return -1;
      }
      axis = i;
    }
  }
  const int behind_layers = shape.rank() - 2;
  return axis >= 0                                             ? axis
         : behind_layers >= 0 && shape.dim(behind_layers) == 1 ? behind_layers
                                                               : -1;
}

// Nodes that make `input` zeros of its shape, its row axis as long as the source has rows.
//
// For a state [layers, rows, width] and a source `x` of which axis 0 counts rows:
//
//   before:  h0 (an input) -> graph
//   after:   ConstantOfShape(Concat({layers}, rows of x, {width})) = h0 -> graph
absl::Status AddZeros(const Port& input, const std::string& source, onnx::GraphProto& graph,
                      std::vector<onnx::NodeProto>& nodes) {
  const std::string prefix = absl::StrCat("whole_source/", input.name);
  const PartialShape& shape = input.info.shape;
  const int rows = shape.has_rank() ? RowAxis(shape) : -1;
  if (rows < 0) {
    return Invalid("'", input.name, "' ", shape.ToString(),
                   " leaves more open than how many rows it has");
  }
  std::vector<std::string> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::string name = absl::StrCat(prefix, "/", axis);
    extents.push_back(name);
    if (axis != rows) {
      *graph.add_initializer() = Integers(name, {shape.dim(axis)});
      continue;
    }
    *graph.add_initializer() = Integers(absl::StrCat(name, "/first"), {0});
    AddNode("Shape", {source}, absl::StrCat(name, "/shape"), nodes);
    AddAxis0(AddNode("Gather", {absl::StrCat(name, "/shape"), absl::StrCat(name, "/first")}, name,
                     nodes));
  }
  AddAxis0(AddNode("Concat", extents, absl::StrCat(prefix, "/shape"), nodes));
  onnx::NodeProto& zeros =
      AddNode("ConstantOfShape", {absl::StrCat(prefix, "/shape")}, input.name, nodes);
  if (input.info.dtype != ops::DType::kF32) {
    onnx::AttributeProto& value = *zeros.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    onnx::TensorProto& zero = *value.mutable_t();
    zero.add_dims(1);
    if (input.info.dtype == ops::DType::kI64) {
      zero.set_data_type(onnx::TensorProto::INT64);
      zero.add_int64_data(0);
    } else if (input.info.dtype == ops::DType::kI32) {
      zero.set_data_type(onnx::TensorProto::INT32);
      zero.add_int32_data(0);
    } else {
      return Invalid("its state '", input.name, "' is ", Name(input.info.dtype),
                     "; states are f32, i32 or i64");
    }
  }
  return absl::OkStatus();
}

template <typename Values>
void Remove(const std::set<std::string>& names, Values& values) {
  Values kept;
  for (auto& value : values) {
    if (names.count(value.name()) == 0) {
      *kept.Add() = std::move(value);
    }
  }
  values.Swap(&kept);
}

}  // namespace

std::vector<EncoderState> FindEncoderStates(const ops::Graph& encoder) {
  std::vector<EncoderState> states;
  const Ports outputs = ops::OutputPorts(encoder);
  for (const Port& input : ops::InputPorts(encoder)) {
    const std::string stem = ops::NameStem(input.name);
    const Ports found = ops::Where(outputs, [&](const Port& output) {
      return output.name != input.name && !stem.empty() && ops::NameStem(output.name) == stem &&
             output.info.dtype == input.info.dtype;
    });
    if (found.size() == 1) {
      states.push_back({input.name, found[0].name});
    }
  }
  return states;
}

std::vector<EncoderState> FindInitialStates(const ops::Graph& encoder,
                                            const std::string& source_input) {
  const Ports inputs = ops::InputPorts(encoder);
  std::vector<EncoderState> states;
  for (const Port& input : inputs) {
    if (input.name != source_input && IsFloat(input.info.dtype) &&
        ops::StartsLoopState(encoder, input.node) &&
        ops::HasWord(input.name, {"hidden", "state", "states", "h", "h0", "hx", "hc", "cell", "c",
                                  "c0", "cx"})) {
      states.push_back({input.name, ""});
    }
  }
  return states.size() < inputs.size() ? states : std::vector<EncoderState>();
}

absl::Status CheckWholeSource(const ops::Graph& encoder, absl::Span<const EncoderState> states,
                              const std::string& model_type) {
  const Ports inputs = ops::InputPorts(encoder);
  const Ports sources = ops::Where(inputs, [&](const Port& port) {
    return IsFloat(port.info.dtype) && !IsState(states, port.name);
  });
  const std::string type = model_type.empty() ? "" : absl::StrCat(" (model_type ", model_type, ")");
  for (const Port& source : sources) {
    const PartialShape& shape = source.info.shape;
    if (shape.has_rank() && shape.rank() == 3 && ops::FindLengthAxis(shape) == 1 &&
        shape.dim(1) != PartialShape::kDynamic) {
      return Refuse(absl::StrCat("it reads ", shape.dim(1),
                                 " frames a call, no more and no fewer ('", source.name, "' ",
                                 shape.ToString(), "), and hands on ", states.size(),
                                 " states such as '", states[0].input, "'", type));
    }
  }
  for (const EncoderState& state : states) {
    const Port& input = *FindInput(inputs, state);
    const PartialShape& shape = input.info.shape;
    const bool counts = !IsFloat(input.info.dtype);
    const int open = !shape.has_rank()
                         ? 2
                         : static_cast<int>(std::count(shape.dims().begin(), shape.dims().end(),
                                                       PartialShape::kDynamic));
    if (counts || absl::StrContains(state.input, "cache") || open > 1) {
      return Refuse(
          absl::StrCat("its state '", state.input, "' ", Name(input.info.dtype), shape.ToString(),
                       counts ? " counts what it has read" : " is a cache of what it has read",
                       ", so that chunks are not what one call over all of them is", type));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> StartAtZero(const std::string& onnx, const ops::Graph& encoder,
                                        absl::Span<const EncoderState> states) {
  onnx::ModelProto model;
  if (!model.ParseFromString(onnx)) {
    return Invalid("its states can be given zeros in an ONNX file alone");
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  const Ports inputs = ops::InputPorts(encoder);
  const Ports sources =
      ops::Where(inputs, [&](const Port& port) { return !IsState(states, port.name); });
  if (sources.empty()) {
    return Invalid("it has no input but its states");
  }
  std::set<std::string> gone_inputs;
  std::set<std::string> gone_outputs;
  std::vector<onnx::NodeProto> nodes;
  for (const EncoderState& state : states) {
    gone_inputs.insert(state.input);
    gone_outputs.insert(state.output);
    BW_RETURN_IF_ERROR(AddZeros(*FindInput(inputs, state), sources[0].name, graph, nodes));
  }
  Remove(gone_inputs, *graph.mutable_input());
  Remove(gone_outputs, *graph.mutable_output());
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    nodes.push_back(std::move(node));
  }
  graph.mutable_node()->Clear();
  for (onnx::NodeProto& node : nodes) {
    *graph.add_node() = std::move(node);
  }
  return model.SerializeAsString();
}

namespace {

// Silence behind a source, so that its last words come out: 0.66 s, as sherpa-onnx's programs add.
constexpr int kSilence = 66;

// The tail with which as many chunks are read as sherpa-onnx reads: it leaves out a chunk that its
// silence does not fill, where a tail counts the frames that a last chunk begins with.
int TailOf(int chunk) { return std::max(kSilence - (chunk - 1), 0); }

// The logarithm of what NeMo adds to energies, 2^-24.
constexpr float kNemoSilence = -16.635532F;

// 0: it does not say.
int NumberOf(const ops::Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  int value = 0;
  return found != metadata.end() && absl::SimpleAtoi(found->second, &value) ? value : 0;
}

}  // namespace

std::optional<ChunkFacts> FindChunks(const ops::Metadata& metadata) {
  // WeNet's exporter and sherpa-onnx's script give it two names.
  const int subsampling = NumberOf(metadata, "subsampling_rate") > 0
                              ? NumberOf(metadata, "subsampling_rate")
                              : NumberOf(metadata, "subsampling_factor");
  const int64_t shift = int64_t{subsampling} * NumberOf(metadata, "chunk_size");
  const int64_t window = shift - subsampling + NumberOf(metadata, "right_context") + 1;
  constexpr int64_t kMost = 10'000;
  const bool is_wenet = shift > 0 && shift <= kMost && window <= kMost;
  for (const ChunkFacts& facts :
       {ChunkFacts{NumberOf(metadata, "T"), NumberOf(metadata, "decode_chunk_len"), false,
                   "T and decode_chunk_len"},
        ChunkFacts{NumberOf(metadata, "window_size"), NumberOf(metadata, "chunk_shift"), true,
                   "window_size and chunk_shift"},
        ChunkFacts{is_wenet ? static_cast<int>(window) : 0, is_wenet ? static_cast<int>(shift) : 0,
                   false, "chunk_size, subsampling and right_context"}}) {
    if (facts.shift > 0 && facts.chunk >= facts.shift) {
      return facts;
    }
  }
  return std::nullopt;
}

v1::StreamingConfig StreamingConfigOf(const ChunkFacts& facts,
                                      absl::Span<const EncoderState> states,
                                      std::vector<std::string>& reasons) {
  v1::StreamingConfig config;
  config.set_chunk(facts.chunk);
  config.set_shift(facts.shift);
  const int tail = TailOf(facts.chunk);
  config.set_tail(tail);
  reasons.push_back(absl::StrCat("the encoder reads a source chunk by chunk, ", facts.chunk,
                                 " frames, the next ", facts.shift, " later: metadata has ",
                                 facts.keys));
  if (facts.is_nemo) {
    config.set_silence(kNemoSilence);
  }
  reasons.push_back(absl::StrCat("tail ", tail,
                                 ": as many chunks of silence are read behind a source as by "
                                 "sherpa-onnx's programs, for its last words to come out"));
  for (const EncoderState& state : states) {
    v1::EncoderStateConfig& added = *config.add_states();
    added.set_input(state.input);
    added.set_output(state.output);
  }
  reasons.push_back(absl::StrCat("encoder states '", states[0].input, "' <- '", states[0].output,
                                 "'", states.size() > 1 ? " and so on" : "", ", ", states.size(),
                                 " of them: alike but for words such as new and next; they begin "
                                 "at zero"));
  return config;
}

int ChunkAxis(const ops::Graph& encoder, const std::string& input, int chunk) {
  const ops::Ports inputs = ops::InputPorts(encoder);
  const ops::Port* const source = ops::FindPort(inputs, input);
  if (source == nullptr || !source->info.shape.has_rank() || source->info.shape.rank() != 3) {
    return 1;
  }
  const int64_t first = source->info.shape.dim(1);
  const int64_t second = source->info.shape.dim(2);
  const bool is_second = second == ops::PartialShape::kDynamic || second == chunk;
  return is_second && first != ops::PartialShape::kDynamic && first != chunk ? 2 : 1;
}

}  // namespace beamwright::tools
