// What a graph is given and gives at its ports, changed to what a search has: i64 token ids and f32
// numbers. Each function copies the graph (GraphCopy) and replaces the ports in question; names and
// order stay. OneHotTokens and TakeIds do the same for decoders that read a token as a one-hot row,
// AddScoreOfBegin for decoders whose outputs lack a column for the begin token.
#include "ops/decoder/decoder_ports.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/string_view.h"
#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/decoder/decoder_form.h"

namespace beamwright::ops {

// Adapts the types of a graph's ports to what a search gives and takes:
//
// 1. TakeFloatIds: some exports read token ids as floats, which they convert to integers before a
//    table lookup. Such inputs (IsFloatIds) become i64; comparisons with a constant, as masks make
//    them, get the float back.
// 2. TakeAndGiveF32: inputs and outputs of 16-bit floats become f32, with a Convert inside the
//    graph.

namespace {

bool IsShort(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

// Whether it is a Parameter or a Result of 16-bit floats.
bool IsShortPort(const Graph& graph, const Node& node) {
  return (node.op == "Parameter" && IsShort(node.outputs[0].dtype)) ||
         (node.op == "Result" && IsShort(graph.info(node.inputs[0]).dtype));
}

ValueId AppendConvert(Graph& graph, const std::string& name, ValueId value, DType dtype) {
  Node convert;
  convert.op = "Convert";
  convert.name = name;
  convert.attributes.Set("destination_type", std::string(Name(dtype)));
  convert.inputs = {value};
  convert.outputs.resize(1);
  convert.outputs[0].dtype = dtype;
  return AppendNode(graph, std::move(convert));
}

struct Reader {
  int node = -1;
  size_t place = 0;  // among its inputs
};

// The readers of each node's first output.
std::vector<std::vector<Reader>> Readers(const Graph& graph) {
  std::vector<std::vector<Reader>> readers(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<ValueId>& inputs = graph.nodes[i].inputs;
    for (size_t place = 0; place < inputs.size(); ++place) {
      if (inputs[place].node >= 0 && inputs[place].output == 0) {
        readers[static_cast<size_t>(inputs[place].node)].push_back({static_cast<int>(i), place});
      }
    }
  }
  return readers;
}

bool ConvertsToIntegers(const Node& node) {
  const auto name = node.attributes.String("destination_type", "");
  const auto dtype = name.ok() ? ParseDType(*name) : name.status();
  return node.op == "Convert" && dtype.ok() && IsInteger(*dtype);
}

// Whether the node compares with a constant, as masks of padding do.
bool ComparesWithConstant(const Graph& graph, const Node& node) {
  constexpr absl::string_view kComparisons[] = {"Equal",        "NotEqual", "Greater",
                                                "GreaterEqual", "Less",     "LessEqual"};
  return std::find(std::begin(kComparisons), std::end(kComparisons), node.op) !=
             std::end(kComparisons) &&
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&graph](ValueId input) { return graph.node(input.node).op == "Constant"; });
}

// Whether the only use of a float input is as an index: it is converted to integers, and these only
// look rows of a table up. Shapes and comparisons with constants do not count.
bool IsFloatIds(const Graph& graph, const std::vector<std::vector<Reader>>& readers,
                int parameter) {
  bool is_looked_up = false;
  for (const Reader& reader : readers[static_cast<size_t>(parameter)]) {
    const Node& node = graph.node(reader.node);
    if (node.op == "ShapeOf" || ComparesWithConstant(graph, node)) {
      continue;
    }
    if (!ConvertsToIntegers(node)) {
      return false;
    }
    for (const Reader& next : readers[static_cast<size_t>(reader.node)]) {
      const bool is_index = graph.node(next.node).op == "Gather" && next.place == 1;
      if (!is_index && graph.node(next.node).op != "ShapeOf") {
        return false;
      }
      is_looked_up = is_looked_up || is_index;
    }
  }
  return is_looked_up;
}

}  // namespace

void TakeFloatIds(Graph& graph) {
  const std::vector<std::vector<Reader>> readers = Readers(graph);
  std::vector<bool> takes_ids(graph.nodes.size());
  bool is_compared = false;
  for (const int parameter : graph.parameters) {
    const auto at = static_cast<size_t>(parameter);
    ValueInfo& info = graph.node(parameter).outputs[0];
    if (IsFloat(info.dtype) && IsFloatIds(graph, readers, parameter)) {
      info.dtype = DType::kI64;
      takes_ids[at] = true;
      is_compared =
          is_compared || std::any_of(readers[at].begin(), readers[at].end(), [&](Reader reader) {
            return ComparesWithConstant(graph, graph.node(reader.node));
          });
    }
  }
  if (!is_compared) {
    return;
  }
  // Comparisons read floats as before.
  GraphCopy copy(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& old = graph.node(i);
    Node node = copy.Moved(i);
    for (size_t place = 0; ComparesWithConstant(graph, old) && place < old.inputs.size(); ++place) {
      if (takes_ids[static_cast<size_t>(old.inputs[place].node)]) {
        node.inputs[place] =
            AppendConvert(copy.to(), old.name, copy.Of(old.inputs[place]), DType::kF32);
      }
    }
    copy.Keep(i, std::move(node));
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
}

void TakeAndGiveF32(Graph& graph) {
  TakeFloatIds(graph);
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [&graph](const Node& node) { return IsShortPort(graph, node); })) {
    return;
  }
  GraphCopy copy(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& old = graph.node(i);
    Node node = copy.Moved(i);
    if (!IsShortPort(graph, old)) {
      copy.Keep(i, std::move(node));
    } else if (old.op == "Parameter") {
      node.outputs[0].dtype = DType::kF32;
      const ValueId taken = copy.Keep(i, std::move(node));
      copy.Replace({i, 0}, AppendConvert(copy.to(), old.name, taken, old.outputs[0].dtype));
    } else {
      node.inputs[0] = AppendConvert(copy.to(), old.name, node.inputs[0], DType::kF32);
      copy.Keep(i, std::move(node));
    }
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
}

int64_t OneHotTokens(const Graph& graph, int parameter) {
  const ValueInfo& info = graph.node(parameter).outputs[0];
  const bool fits = info.dtype == DType::kF32 && info.shape.has_rank() && info.shape.rank() > 1;
  const int64_t tokens = fits ? info.shape.dims().back() : 0;
  return tokens == PartialShape::kDynamic ? 0 : tokens;
}

// before: Parameter one_hot f32 [rows, tokens] -> ...    after: Parameter ids i64 [rows] ->
// OneHot(ids, tokens, 1, 0) -> ...
void TakeIds(Graph& graph, int parameter) {
  const int64_t tokens = OneHotTokens(graph, parameter);
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index != parameter) {
      copy.Keep(index);
      continue;
    }
    Node ids = copy.Moved(index);
    Shape dims = ids.outputs[0].shape.dims();
    dims.pop_back();
    ids.outputs[0].dtype = DType::kI64;
    ids.outputs[0].shape = PartialShape(std::move(dims));
    const ValueId taken = copy.Keep(index, std::move(ids));
    Node one_hot;
    one_hot.op = "OneHot";
    one_hot.name = graph.node(index).name;
    one_hot.attributes.Set("axis", int64_t{-1});
    one_hot.inputs = {taken,
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<int64_t>(tokens)),
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<float>(1)),
                      AppendConstant(copy.to(), one_hot.name, Tensor::Scalar<float>(0))};
    one_hot.outputs.resize(1);
    copy.Replace({index, 0}, AppendNode(copy.to(), std::move(one_hot)));
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
}

// before: logits -> Result    after: Pad(logits, a column behind the last axis, score) -> Result
absl::Status AddScoreOfBegin(Graph& graph, const std::string& name, float score) {
  BW_ASSIGN_OR_RETURN(const int result, FindResult(graph, "decoder.logits_output", name));
  const int port = graph.results[static_cast<size_t>(result)];
  const PartialShape& shape = InfoOfResult(graph, result).shape;
  if (!shape.has_rank() || shape.rank() == 0) {
    return absl::OkStatus();
  }
  std::vector<int64_t> none(static_cast<size_t>(shape.rank()), 0);
  std::vector<int64_t> one = none;
  one.back() = 1;
  GraphCopy copy(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (index != port) {
      copy.Keep(index);
      continue;
    }
    Node result_node = copy.Moved(index);
    Node pad;
    pad.op = "Pad";
    pad.name = graph.node(index).name;
    pad.attributes.Set("pad_mode", std::string("constant"));
    pad.inputs = {result_node.inputs[0], AppendInts(copy.to(), pad.name, none),
                  AppendInts(copy.to(), pad.name, one),
                  AppendConstant(copy.to(), pad.name, Tensor::Scalar<float>(score))};
    pad.outputs.resize(1);
    result_node.inputs[0] = AppendNode(copy.to(), std::move(pad));
    for (ValueInfo& info : result_node.outputs) {
      info.shape = PartialShape();  // what the file declares is a column less
    }
    copy.Keep(index, std::move(result_node));
  }
  std::vector<std::string> warnings = std::move(graph.warnings);
  graph = std::move(copy).Finish();
  graph.warnings = std::move(warnings);
  return absl::OkStatus();
}

}  // namespace beamwright::ops
