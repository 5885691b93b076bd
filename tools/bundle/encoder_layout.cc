// Two questions about how an export laid out an encoder's axes.
//
// 1. Does it read [length, rows, ...] in the place of [rows, length, ...]? RowsFirst edits the ONNX
//    file: the input gets a new name and exchanged axes, and a Transpose in front of the graph
//    makes the old input of it. ReadsTimeFirst tries both (Try): a graph reads the length first if
//    its rows are proven to stay apart only after the exchange, or if it runs over one source only
//    then.
//
//   before:  x [length, rows, width] -> graph
//   after:   x_by_rows [rows, length, width] -> Transpose(perm 1, 0, 2) -> x -> graph
//
// 2. Which extents did the export fix at those of its example (FixedLength, FixedSource,
//    FixedExtents)? Each becomes a line for the user that says what is fixed, and how to export the
//    model again.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "ops/loop/model.h"
#include "tools/bundle/encoder_input.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {

namespace {

struct Trial {
  bool separates = false;  // rows are proven to stay apart
  bool runs = false;       // over one source of kTrialLength positions
};

// `input`: the source of `graph`, axis 0 of which would count rows.
Trial Try(ops::Graph graph, const std::string& input, const ops::EncoderRoles& roles) {
  ops::RowInputs rows;
  rows.source = ParameterOf(graph, input);
  rows.length_axis = 1;
  const int length = ParameterOf(graph, roles.length_input);
  if (roles.length_kind == ops::LengthKind::kLengths) {
    rows.lengths = length;
  } else if (roles.length_kind != ops::LengthKind::kNone) {
    rows.mask = length;
  }
  std::vector<ops::Tensor> inputs = TrialInputs(graph, input, roles);
  Trial trial;
  ops::RowProof proof;
  const auto model = ops::Model::Compile(std::move(graph), Precision::kF32, rows, proof);
  if (!model.ok()) {
    return trial;
  }
  trial.separates = proof.separable;
  // The proof may have given the graph a Parameter for the lengths of its rows.
  if ((*model)->graph().parameters.size() > inputs.size()) {
    inputs.push_back(ops::Tensor::Of<int64_t>({1}, std::vector<int64_t>{kTrialLength}));
  }
  std::vector<ops::Tensor> outputs;
  trial.runs = (*model)->Run(ops::ExecutionContext(), inputs, outputs).ok();
  return trial;
}

}  // namespace

std::string RowsFirstName(const std::string& input) { return absl::StrCat(input, "_by_rows"); }

// The new Transpose is the first node: ONNX wants nodes in topological order. The loop at the end
// moves it there from the end of the list, past one node after the other, so that the others keep
// their order.
absl::StatusOr<std::string> RowsFirst(const std::string& onnx, const std::string& input) {
  onnx::ModelProto model;
  if (!model.ParseFromString(onnx)) {
    return Invalid(
        "its source is [length, rows], which `init` turns round in an ONNX file alone; export it "
        "with the rows first, as PyTorch's batch_first=True has them");
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::string name = RowsFirstName(input);
  int rank = 0;
  for (onnx::ValueInfoProto& info : *graph.mutable_input()) {
    onnx::TensorShapeProto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
    if (info.name() == input && shape.dim_size() >= 2) {
      rank = shape.dim_size();
      shape.mutable_dim()->SwapElements(0, 1);
      info.set_name(name);
    }
  }
  if (rank == 0) {
    return Invalid("'", input, "' has no axes of length and rows");
  }
  // What `init` itself put in front counts the rows of the source.
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& read : *node.mutable_input()) {
      if (read == input && absl::StartsWith(node.name(), "whole_source/")) {
        read = name;
      }
    }
  }
  onnx::NodeProto& transpose = *graph.add_node();
  transpose.set_op_type("Transpose");
  transpose.set_name("rows_first/Transpose");
  transpose.add_input(name);
  transpose.add_output(input);
  onnx::AttributeProto& perm = *transpose.add_attribute();
  perm.set_name("perm");
  perm.set_type(onnx::AttributeProto::INTS);
  for (int axis = 0; axis < rank; ++axis) {
    perm.add_ints(axis < 2 ? 1 - axis : axis);
  }
  for (int i = graph.node_size() - 1; i > 0; --i) {
    graph.mutable_node()->SwapElements(i, i - 1);
  }
  return model.SerializeAsString();
}

// Why it reads the length first, for the bundle's comments; empty: it does not. A proof counts for
// more than a run: a graph may run over a wrong layout and mix rows. The run decides only where
// neither layout could be proven.
std::string ReadsTimeFirst(const ops::Graph& given, const ops::Graph& rows_first,
                           const ops::EncoderRoles& roles) {
  const Trial as_it_is = Try(given, roles.input, roles);
  if (as_it_is.separates) {
    return "";
  }
  const Trial turned = Try(rows_first, RowsFirstName(roles.input), roles);
  return turned.separates ? "rows of axis 1 are proven to stay apart, those of axis 0 are not"
         : turned.runs && !as_it_is.runs
             ? absl::StrCat("it runs over [", kTrialLength, ", 1] and fails over [1, ",
                            kTrialLength, "]")
             : "";
}

namespace {

using ops::PartialShape;
using ops::Port;

std::string Shown(const Port& port) {
  return absl::StrCat("'", port.name, "' ", ops::Name(port.info.dtype), port.info.shape.ToString());
}

std::string ExportAgain(const std::string& name, int axis) {
  return absl::StrCat(
      "; to serve others, export it again with that axis dynamic (PyTorch: "
      "dynamic_axes={'",
      name, "': {0: 'rows', ", axis, ": 'length'}, ...})");
}

void AddSource(const Port& source, int length_axis, std::vector<std::string>& lines) {
  const PartialShape& shape = source.info.shape;
  const int axis = std::max(length_axis > 0 ? length_axis : ops::FindLengthAxis(shape), 1);
  if (axis < shape.rank() && shape.dim(axis) != PartialShape::kDynamic) {
    lines.push_back(absl::StrCat("every source must have exactly ", shape.dim(axis),
                                 " positions: the export fixed axis ", axis, " of ", Shown(source),
                                 ExportAgain(source.name, axis)));
  }
}

// The decoder's input is compared with the encoder's result that fills it, axis by axis behind the
// rows: the encoder's may be open while the decoder's has the extent of the example that was
// exported.
void AddMemory(const Port& memory, const Port& result, std::vector<std::string>& lines) {
  const PartialShape& takes = memory.info.shape;
  const PartialShape& gives = result.info.shape;
  for (int axis = 1; axis < std::min(takes.rank(), gives.rank()); ++axis) {
    if (gives.dim(axis) == PartialShape::kDynamic && takes.dim(axis) != PartialShape::kDynamic) {
      lines.push_back(absl::StrCat("the encoder gives ", Shown(result), ", but the decoder takes ",
                                   Shown(memory), ": the export fixed axis ", axis,
                                   ExportAgain(memory.name, axis)));
    }
  }
}

}  // namespace

// The length of sources of ids, [rows, length], where the export fixed it; 0: it is open.
int64_t FixedLength(const ops::Graph& encoder, const v1::EncoderConfig& config) {
  const ops::Ports sources = ops::InputPorts(encoder);
  const Port* const source = FindPort(sources, config.input());
  const bool is_ids = source != nullptr && ops::IsInteger(source->info.dtype) &&
                      source->info.shape.has_rank() && source->info.shape.rank() == 2;
  return is_ids ? std::max<int64_t>(source->info.shape.dim(1), 0) : 0;
}

std::vector<std::string> FixedSource(const ops::Graph& encoder, const v1::EncoderConfig& config) {
  std::vector<std::string> lines;
  const ops::Ports sources = ops::InputPorts(encoder);
  if (const Port* source = FindPort(sources, config.input()); source != nullptr) {
    AddSource(*source, config.length_axis(), lines);
  }
  return lines;
}

std::vector<std::string> FixedExtents(const ops::Graph* encoder, const v1::EncoderConfig& config,
                                      const ops::Graph& decoder, const ops::DecoderRoles& roles,
                                      bool is_padded) {
  if (encoder == nullptr) {
    return {};
  }
  std::vector<std::string> lines;
  if (!is_padded) {
    lines = FixedSource(*encoder, config);
  }
  const ops::Ports inputs = ops::InputPorts(decoder);
  const ops::Ports results = ops::OutputPorts(*encoder);
  for (const ops::MemoryRole& memory : roles.memory) {
    const Port* input = FindPort(inputs, memory.input);
    const Port* result = FindPort(results, memory.encoder_output);
    if (input != nullptr && result != nullptr) {
      AddMemory(*input, *result, lines);
    }
  }
  return lines;
}

}  // namespace beamwright::tools
