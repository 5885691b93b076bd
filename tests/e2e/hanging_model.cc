#include "tests/e2e/hanging_model.h"

#include <vector>

#include "onnx/onnx_pb.h"

namespace beamwright::e2e {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kVocabulary = 5;
constexpr int64_t kHangsFrom = 700;  // sum of a source's ids

void AddValue(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values,
              const std::string& name, onnx::TensorProto::DataType type,
              const std::vector<int64_t>& dims) {  // -1: rows, -2: another open one
  onnx::ValueInfoProto& value = *values.Add();
  value.set_name(name);
  onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const int64_t dim : dims) {
    onnx::TensorShapeProto::Dimension& added = *tensor.mutable_shape()->add_dim();
    if (dim >= 0) {
      added.set_dim_value(dim);
    } else {
      added.set_dim_param(dim == -1 ? "rows" : "length");
    }
  }
}

void AddNode(onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
             const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& input : inputs) {
    node.add_input(input);
  }
  node.add_output(output);
  if (op == "ReduceSum" || op == "ReduceMax") {
    onnx::AttributeProto& keep = *node.add_attribute();
    keep.set_name("keepdims");
    keep.set_type(onnx::AttributeProto::INT);
    keep.set_i(0);
  }
}

void AddInts(onnx::GraphProto& graph, const std::string& name, const std::vector<int64_t>& values,
             bool is_scalar = true) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  if (!is_scalar) {
    tensor.add_dims(static_cast<int64_t>(values.size()));
  }
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
}

void AddFloats(onnx::GraphProto& graph, const std::string& name, const std::vector<int64_t>& dims,
               float value) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) {
    tensor.add_float_data(value * static_cast<float>(i % 7));
  }
}

std::string Bytes(onnx::GraphProto graph) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  graph.set_name("graph");
  *model.mutable_graph() = std::move(graph);
  return model.SerializeAsString();
}

std::string Encoder() {
  onnx::GraphProto graph;
  AddValue(*graph.mutable_input(), "source", onnx::TensorProto::INT64, {-1, -2});
  AddInts(graph, "axes", {1}, /*is_scalar=*/false);
  AddNode(graph, "ReduceSum", {"source", "axes"}, "sum");
  AddValue(*graph.mutable_output(), "sum", onnx::TensorProto::INT64, {-1});
  return Bytes(std::move(graph));
}

std::string Decoder() {
  onnx::GraphProto body;
  AddValue(*body.mutable_input(), "iteration", onnx::TensorProto::INT64, {});
  AddValue(*body.mutable_input(), "goes_on", onnx::TensorProto::BOOL, {});
  AddValue(*body.mutable_input(), "x", onnx::TensorProto::FLOAT, {-1, kWidth});
  AddNode(body, "Identity", {"goes_on"}, "goes_on_then");
  AddNode(body, "MatMul", {"x", "weight"}, "y");
  AddValue(*body.mutable_output(), "goes_on_then", onnx::TensorProto::BOOL, {});
  AddValue(*body.mutable_output(), "y", onnx::TensorProto::FLOAT, {-1, kWidth});
  body.set_name("body");

  onnx::GraphProto graph;
  AddValue(*graph.mutable_input(), "token", onnx::TensorProto::INT64, {-1});
  AddValue(*graph.mutable_input(), "state", onnx::TensorProto::FLOAT, {-1, kWidth});
  AddValue(*graph.mutable_input(), "sum", onnx::TensorProto::INT64, {-1});
  AddFloats(graph, "weight", {kWidth, kWidth}, 0.001f);
  AddFloats(graph, "lines", {kVocabulary, kVocabulary}, 0.5f);
  AddFloats(graph, "wide", {kVocabulary, kWidth}, 0.01f);
  AddFloats(graph, "narrow", {kWidth, kVocabulary}, 0.01f);
  AddInts(graph, "from", {kHangsFrom});
  AddInts(graph, "many", {int64_t{1} << 40});
  AddInts(graph, "one", {1});
  AddNode(graph, "Gather", {"wide", "token"}, "embedded");
  AddNode(graph, "Add", {"state", "embedded"}, "moved");
  AddNode(graph, "ReduceMax", {"sum"}, "most");
  AddNode(graph, "Div", {"most", "from"}, "hangs");
  AddNode(graph, "Mul", {"hangs", "many"}, "more");
  AddNode(graph, "Add", {"more", "one"}, "trips");
  AddNode(graph, "Loop", {"trips", "", "moved"}, "next_state");
  onnx::AttributeProto& attribute = *graph.mutable_node()->rbegin()->add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  *attribute.mutable_g() = std::move(body);
  AddNode(graph, "MatMul", {"next_state", "narrow"}, "projected");
  AddNode(graph, "Gather", {"lines", "token"}, "bias");
  AddNode(graph, "Add", {"projected", "bias"}, "logits");
  AddValue(*graph.mutable_output(), "logits", onnx::TensorProto::FLOAT, {-1, kVocabulary});
  AddValue(*graph.mutable_output(), "next_state", onnx::TensorProto::FLOAT, {-1, kWidth});
  return Bytes(std::move(graph));
}

}  // namespace

void WriteHangingModel(const bundle::TempFolder& temp, const std::string& folder, Hangs hangs) {
  temp.Write(folder + "/encoder.onnx", Encoder());
  temp.Write(folder + "/decoder.onnx", Decoder());
  if (hangs == Hangs::kAtLoad) {
    const v1::Source hanging = SourceThatHangs(true);
    std::string source;
    for (const int32_t id : hanging.ids().ids()) {
      source += (source.empty() ? "" : ",") + std::to_string(id);
    }
    temp.Write(folder + "/warmup.jsonl",
               "{\"source\":{\"ids\":{\"ids\":[" + source + "]}},\"options\":{}}\n");
  }
  std::string texts = R"(source { form: TEXT_FORM_IDS size: 50 }
target { form: TEXT_FORM_IDS size: 5 begin_token: "0" end_tokens: "1" }
)";
  if (hangs == Hangs::kForAWord) {
    std::string words;
    for (int64_t i = 0; i <= kHangsFrom; ++i) {
      words += (i == kHangsFrom ? "t20"
                : i < 20        ? "t" + std::to_string(i)
                                : "w" + std::to_string(i)) +
               "\n";
    }
    temp.Write(folder + "/words.txt", words);
    temp.Write(folder + "/target.txt", "<s>\n</s>\na\nb\nc\n");
    texts = R"(source { form: TEXT_FORM_WHITESPACE vocabulary: "words.txt" }
target { form: TEXT_FORM_WHITESPACE vocabulary: "target.txt" begin_token: "<s>" end_tokens: "</s>" }
)";
  }
  temp.Write(folder + "/model.textproto", R"(format_version: 1
encoder { graph: "encoder.onnx" }
decoder {
  graph: "decoder.onnx" token_input: "token" logits_output: "logits"
  states { input: "state" output: "next_state" constant: 0 }
  memory { input: "sum" encoder_output: "sum" }
}
)" + texts);
}

v1::Source SourceThatHangs(bool hangs) {
  v1::Source source;
  for (int i = 0; i < 16; ++i) {
    source.mutable_ids()->add_ids(hangs ? 49 : 1);
  }
  return source;
}

}  // namespace beamwright::e2e
