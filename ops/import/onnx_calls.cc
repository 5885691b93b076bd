#include "ops/import/onnx_calls.h"

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kFreeCallBytes = int64_t{16} << 20;
constexpr int64_t kGrowth = 4;
// Roughly what a node or a name takes besides its text.
constexpr int64_t kNodeBytes = 256;
constexpr int64_t kNameBytes = 32;

template <typename Names>
int64_t NameBytes(const Names& names) {
  int64_t bytes = 0;
  for (const std::string& name : names) {
    bytes += kNameBytes + static_cast<int64_t>(name.size());
  }
  return bytes;
}

template <typename Nodes>
int64_t NodeBytes(const Nodes& nodes) {
  int64_t bytes = 0;
  for (const onnx::NodeProto& node : nodes) {
    bytes += kNodeBytes + NameBytes(node.input()) + NameBytes(node.output()) +
             static_cast<int64_t>(node.name().size() + node.op_type().size());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      bytes += static_cast<int64_t>(attribute.name().size()) + CopiedBytes(attribute);
    }
  }
  return bytes;
}

// Nesting is bounded by what protobuf parses (100 messages).
int64_t GraphBytes(const onnx::GraphProto& graph) {
  return NodeBytes(graph.node()) +
         kNodeBytes * (graph.input_size() + graph.output_size() + graph.initializer_size() +
                       graph.value_info_size());
}

}  // namespace

int64_t CopiedBytes(const onnx::AttributeProto& attribute) {
  return static_cast<int64_t>(attribute.s().size()) + NameBytes(attribute.strings()) +
         8 * (attribute.ints_size() + attribute.floats_size()) +
         (attribute.has_g() ? GraphBytes(attribute.g()) : 0);
}

int64_t CopiedBytes(const onnx::FunctionProto& function) {
  return NameBytes(function.input()) + NameBytes(function.output()) + NodeBytes(function.node());
}

absl::Status AddCopied(int64_t bytes, OnnxImport& import) {
  import.copied_bytes += bytes;
  return import.copied_bytes > kFreeCallBytes + kGrowth * import.file_bytes
             ? Invalid("calls of functions repeat more than ", kFreeCallBytes >> 20,
                       " MiB and four times the file")
             : absl::OkStatus();
}

}  // namespace beamwright::ops
