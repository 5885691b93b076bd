// What `init` does for WeNet: encoder.onnx and ctc.onnx of its exporter
// (wenet/bin/export_onnx_cpu.py). Their caller counts the frames so far and makes a mask of them
// for each chunk; the bundle's file does both.
//
// 1. WeNetFactsOf reads the metadata: frames of a chunk, and of the cache before it.
// 2. AddHead appends the graph of the CTC output.
// 3. Chunks: the caches and the count become states with a first axis for rows. The count gives
//    `offset` and the mask, which is open where the cache holds frames: as WeNet's caller, which
//    begins with a cache of zeros that the mask hides. Behind the end of the table of positions
//    (TableEnd; 5,000 frames) the offset stays where it is.
// 4. Whole: a file for whole sources (chunk_size -1) has caches without places.
//
// Example of the mask: chunks of 16 frames, 64 frames of cache. It is true at place p if p >= 64 -
// count: in the first chunk (count 0) at the places 64 to 79, the chunk; in the second (count 16)
// from 48 on; from the fifth on everywhere. The offset is count + 64, the place of the chunk's
// first frame behind a cache that begins with 64 frames of nothing.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "tools/bundle/init_parts.h"

namespace beamwright::tools {
namespace {

constexpr char kOffset[] = "offset";
constexpr char kMaskInput[] = "att_mask";
constexpr char kCacheSize[] = "required_cache_size";
constexpr char kFrames[] = "output";
constexpr char kCount[] = "state_count";

struct WeNetFacts {
  int64_t chunk = 0;   // frames of the encoder; below 1: whole sources
  int64_t cached = 0;  // frames before a chunk that it sees
};

int64_t NumberIn(const ops::Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  int64_t value = 0;
  return found != metadata.end() && absl::SimpleAtoi(found->second, &value) ? value : 0;
}

absl::StatusOr<WeNetFacts> WeNetFactsOf(const ops::Metadata& metadata) {
  constexpr int64_t kMost = 10'000;
  WeNetFacts facts;
  facts.chunk = NumberIn(metadata, "chunk_size");
  const int64_t left_chunks = NumberIn(metadata, "left_chunks");
  if (facts.chunk <= 0) {
    return facts;
  }
  facts.cached = facts.chunk <= kMost && left_chunks <= kMost ? facts.chunk * left_chunks : -1;
  if (facts.cached <= 0) {
    return Invalid("its chunks of ", facts.chunk, " frames see ",
                   left_chunks == 0 ? "no chunk before them" : "all sound before them",
                   "; export it with --num_decoding_left_chunks 4, or for whole sources with "
                   "--chunk_size -1 --num_decoding_left_chunks -1");
  }
  return facts;
}

// The port of this name; null: the exporter left it out, since nothing reads it.
const onnx::ValueInfoProto* PortOf(
    const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& ports, absl::string_view name) {
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [&](const auto& port) { return port.name() == name; });
  return found == ports.end() ? nullptr : &*found;
}

std::vector<int64_t> ExtentsOf(const onnx::ValueInfoProto& port) {
  std::vector<int64_t> extents;
  for (const auto& dim : port.type().tensor_type().shape().dim()) {
    extents.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  }
  return extents;
}

void Erase(const std::string& name,
           google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& ports) {
  const auto gone = std::find_if(ports.begin(), ports.end(),
                                 [&](const auto& port) { return port.name() == name; });
  if (gone != ports.end()) {
    ports.erase(gone);
  }
}

// Nodes and constants before the graph's own, or behind them.
class GraphEditor {
 public:
  explicit GraphEditor(onnx::GraphProto& graph) : graph_(graph) {}

  std::string Constant(const std::string& name, const std::vector<int64_t>& values,
                       const std::vector<int64_t>& shape) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.mutable_dims()->Add(shape.begin(), shape.end());
    tensor.mutable_int64_data()->Add(values.begin(), values.end());
    return name;
  }
  std::string Constant(const std::string& name, int64_t value) {
    return Constant(name, {value}, {1});
  }
  // Of f32.
  void Zeros(const std::string& name, const std::vector<int64_t>& shape) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (const int64_t extent : shape) {
      tensor.add_dims(extent);
      count *= extent;
    }
    tensor.mutable_float_data()->Resize(static_cast<int>(count), 0);
  }
  void Before(const char* op, const std::vector<std::string>& inputs, const std::string& output) {
    Fill(op, inputs, output, before_.emplace_back());
  }
  void Behind(const char* op, const std::vector<std::string>& inputs, const std::string& output) {
    Fill(op, inputs, output, *graph_.add_node());
  }
  void Finish() {
    for (onnx::NodeProto& node : *graph_.mutable_node()) {
      before_.push_back(std::move(node));
    }
    graph_.clear_node();
    for (onnx::NodeProto& node : before_) {
      *graph_.add_node() = std::move(node);
    }
    graph_.clear_value_info();
  }

 private:
  static void Fill(const char* op, const std::vector<std::string>& inputs,
                   const std::string& output, onnx::NodeProto& node) {
    node.set_op_type(op);
    node.set_name(absl::StrCat("wenet/", output));
    node.mutable_input()->Add(inputs.begin(), inputs.end());
    node.add_output(output);
  }

  onnx::GraphProto& graph_;
  std::vector<onnx::NodeProto> before_;
};

// Rows of the shortest constant table that is read at places computed from the offset; -1: none.
//
// Goes forwards through the nodes with the names of all values that depend on the offset. A Slice
// or Gather of a constant at such a value reads the table; the axis before the last counts its
// rows, [1, rows, width] or [rows, width].
int64_t TableEnd(const onnx::GraphProto& graph) {
  std::map<std::string, int64_t> tables;  // rows, by name
  const auto add = [&tables](const std::string& name, const onnx::TensorProto& tensor) {
    if (tensor.dims_size() >= 2) {
      tables[name] = tensor.dims(tensor.dims_size() - 2);
    }
  };
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    add(tensor.name(), tensor);
  }
  std::set<std::string> places = {kOffset};
  int64_t end = -1;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "Constant" && node.attribute_size() == 1) {
      add(node.output(0), node.attribute(0).t());
    }
    if (std::none_of(node.input().begin(), node.input().end(),
                     [&](const std::string& input) { return places.count(input) > 0; })) {
      continue;
    }
    const auto table = node.op_type() == "Slice" || node.op_type() == "Gather"
                           ? tables.find(node.input(0))
                           : tables.end();
    if (table != tables.end()) {
      end = end < 0 ? table->second : std::min(end, table->second);
    } else {
      places.insert(node.output().begin(), node.output().end());
    }
  }
  return end;
}

// Appends the graph of the CTC output; the encoder's frames are its input.
//
// Names of the second graph get the prefix "ctc/", so that they cannot meet names of the first; its
// one input becomes the encoder's output, which is no output any more.
absl::Status AddHead(const std::string& content, onnx::ModelProto& encoder) {
  onnx::ModelProto model;
  onnx::GraphProto& graph = *encoder.mutable_graph();
  if (!model.ParseFromString(content) || model.graph().input_size() != 1 ||
      model.graph().output_size() != 1) {
    return Invalid(
        "the second file is not ctc.onnx of WeNet's exporter: a graph with one input "
        "and one output");
  }
  const bool has_frames = PortOf(graph.output(), kFrames) != nullptr;
  if (!has_frames || model.opset_import_size() != 1 || encoder.opset_import_size() != 1 ||
      model.opset_import(0).version() != encoder.opset_import(0).version()) {
    return Invalid("encoder.onnx and ctc.onnx are not of one export: ",
                   has_frames ? "their opsets differ" : "there is no output 'output'");
  }
  onnx::GraphProto& head = *model.mutable_graph();
  const std::string given = head.input(0).name();
  const auto name = [&](const std::string& old) {
    return old.empty() ? old : old == given ? std::string(kFrames) : absl::StrCat("ctc/", old);
  };
  for (onnx::TensorProto& tensor : *head.mutable_initializer()) {
    tensor.set_name(name(tensor.name()));
    *graph.add_initializer() = std::move(tensor);
  }
  for (onnx::NodeProto& node : *head.mutable_node()) {
    for (auto* names : {node.mutable_input(), node.mutable_output()}) {
      std::transform(names->begin(), names->end(), names->begin(), name);
    }
    node.set_name(name(node.name()));
    *graph.add_node() = std::move(node);
  }
  Erase(kFrames, *graph.mutable_output());
  onnx::ValueInfoProto& scores = *graph.add_output();
  scores = head.output(0);
  scores.set_name(name(scores.name()));
  return absl::OkStatus();
}

// An input of i64 that the caller computes is computed from the count.
//
//   count    Reshape(state_count, [1])
//   offset   Min(count + cached, table - chunk), in the shape that the file declares
//   mask     GreaterOrEqual(places [1, 1, cached + chunk], cached - count)
//   next     state_count + chunk
void Count(const WeNetFacts& facts, onnx::GraphProto& graph, GraphEditor& editor) {
  const int64_t table = TableEnd(graph);
  const std::string chunk = editor.Constant("wenet/chunk", facts.chunk);
  const std::string cached = editor.Constant("wenet/cached", facts.cached);
  editor.Before("Reshape", {kCount, editor.Constant("wenet/one", 1)}, "wenet/count");
  if (const auto* offset = PortOf(graph.input(), kOffset); offset != nullptr) {
    std::string place = "wenet/place";
    editor.Before("Add", {"wenet/count", cached}, place);
    if (table >= facts.chunk) {
      editor.Before("Min", {place, editor.Constant("wenet/last", table - facts.chunk)},
                    "wenet/limited");
      place = "wenet/limited";
    }
    const std::vector<int64_t> extents = ExtentsOf(*offset);
    editor.Before(
        "Reshape",
        {place, editor.Constant("wenet/offset_shape", std::vector<int64_t>(extents.size(), 1),
                                {static_cast<int64_t>(extents.size())})},
        kOffset);
  }
  if (PortOf(graph.input(), kMaskInput) != nullptr) {
    std::vector<int64_t> places(static_cast<size_t>(facts.cached + facts.chunk));
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = static_cast<int64_t>(i);
    }
    const auto size = static_cast<int64_t>(places.size());
    editor.Before("Sub", {cached, "wenet/count"}, "wenet/hidden");
    editor.Before("GreaterOrEqual",
                  {editor.Constant("wenet/places", places, {1, 1, size}), "wenet/hidden"},
                  kMaskInput);
  }
  editor.Behind("Add", {kCount, chunk}, absl::StrCat("new_", kCount));
}

// A port of a state, whose first axis counts rows.
onnx::ValueInfoProto StatePort(const std::string& name, int type,
                               const std::vector<int64_t>& extents) {
  onnx::ValueInfoProto port;
  port.set_name(name);
  auto& tensor = *port.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("rows");
  for (const int64_t extent : extents) {
    tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  }
  return port;
}

struct CacheNames {
  const char* input;
  const char* output;
  const char* state;
};

constexpr CacheNames kAttention = {"att_cache", "r_att_cache", "state_attention"};
constexpr CacheNames kConvolution = {"cnn_cache", "r_cnn_cache", "state_convolution"};

// A cache as a state. An encoder without convolutions reads none of theirs.
//
// before: att_cache [layers, heads, cached, width] -> graph -> r_att_cache, without rows. after:
// state_attention [rows, layers, heads, cached, width], reshaped to the extents of the file before
// the graph and back behind it. Rows run one at a time, as the exporter fixes the batch at 1.
absl::Status Cache(const CacheNames& names, const WeNetFacts& facts, onnx::GraphProto& graph,
                   GraphEditor& editor) {
  const bool is_attention = names.input == kAttention.input;
  const onnx::ValueInfoProto* const input = PortOf(graph.input(), names.input);
  if (is_attention && (input == nullptr || PortOf(graph.output(), names.output) == nullptr)) {
    return Invalid("there is no ", input == nullptr ? "input '" : "output '",
                   input == nullptr ? names.input : names.output, "'");
  }
  std::vector<int64_t> extents = input == nullptr ? std::vector<int64_t>() : ExtentsOf(*input);
  Erase(names.input, *graph.mutable_input());
  Erase(names.output, *graph.mutable_output());
  if (extents.empty()) {
    return absl::OkStatus();
  }
  if (is_attention && extents.size() == 4) {
    extents[2] = facts.cached;
  }
  if (*std::min_element(extents.begin(), extents.end()) < 1) {
    return Invalid("'", names.input, "' leaves its extents open");
  }
  const auto rank = static_cast<int64_t>(extents.size());
  std::vector<int64_t> with_rows = extents;
  with_rows.insert(with_rows.begin(), -1);
  const std::string new_state = absl::StrCat("new_", names.state);
  const std::string shape = absl::StrCat("wenet/", names.state, "/shape");
  const std::string new_shape = absl::StrCat("wenet/", new_state, "/shape");
  editor.Before("Reshape", {names.state, editor.Constant(shape, extents, {rank})}, names.input);
  editor.Behind("Reshape", {names.output, editor.Constant(new_shape, with_rows, {rank + 1})},
                new_state);
  *graph.add_input() = StatePort(names.state, onnx::TensorProto::FLOAT, extents);
  *graph.add_output() = StatePort(new_state, onnx::TensorProto::FLOAT, extents);
  return absl::OkStatus();
}

absl::Status Chunks(const WeNetFacts& facts, onnx::GraphProto& graph, GraphEditor& editor) {
  Count(facts, graph, editor);
  BW_RETURN_IF_ERROR(Cache(kAttention, facts, graph, editor));
  BW_RETURN_IF_ERROR(Cache(kConvolution, facts, graph, editor));
  *graph.add_input() = StatePort(kCount, onnx::TensorProto::INT64, {});
  *graph.add_output() = StatePort(absl::StrCat("new_", kCount), onnx::TensorProto::INT64, {});
  return absl::OkStatus();
}

// One run reads all: the caches have no places, the first chunk is at 0.
void Whole(onnx::GraphProto& graph, GraphEditor& editor) {
  for (const CacheNames* names : {&kAttention, &kConvolution}) {
    if (const auto* const input = PortOf(graph.input(), names->input); input != nullptr) {
      std::vector<int64_t> extents = ExtentsOf(*input);
      std::replace(extents.begin(), extents.end(), int64_t{-1}, int64_t{0});
      editor.Zeros(names->input, extents);
    }
    Erase(names->input, *graph.mutable_input());
    Erase(names->output, *graph.mutable_output());
  }
}

// An input of the caller that has one value.
void SetNumber(const char* name, int64_t value, onnx::GraphProto& graph, GraphEditor& editor) {
  if (const auto* const input = PortOf(graph.input(), name); input != nullptr) {
    editor.Constant(name, {value}, std::vector<int64_t>(ExtentsOf(*input).size(), 1));
  }
}

}  // namespace

bool IsWeNet(const InitOptions& options) {
  const ops::Metadata metadata =
      MetadataOf(options.encoder.empty() ? options.decoder : options.encoder);
  return metadata.count("decoding_window") > 0 && metadata.count("left_chunks") > 0;
}

absl::StatusOr<std::string> WeNetEncoder(const std::string& encoder, const std::string& head,
                                         const ops::Metadata& metadata) {
  onnx::ModelProto model;
  if (!model.ParseFromString(encoder)) {
    return Invalid("it is no ONNX file");
  }
  BW_ASSIGN_OR_RETURN(const WeNetFacts facts, WeNetFactsOf(metadata));
  BW_RETURN_IF_ERROR(AddHead(head, model));
  onnx::GraphProto& graph = *model.mutable_graph();
  GraphEditor editor(graph);
  if (facts.chunk > 0) {
    BW_RETURN_IF_ERROR(Chunks(facts, graph, editor));
  } else {
    Whole(graph, editor);
    SetNumber(kOffset, 0, graph, editor);
  }
  SetNumber(kCacheSize, facts.cached, graph, editor);
  for (const char* const name : {kOffset, kMaskInput, kCacheSize}) {
    Erase(name, *graph.mutable_input());
  }
  editor.Finish();
  return model.SerializeAsString();
}

}  // namespace beamwright::tools
