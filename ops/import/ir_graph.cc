// From the layers of a net (an IR's, or a body's) to nodes of a Graph:
//
// 1. The XML becomes layers and edges (ReadNet), and edges become sources, in an order in which
// each
//    layer comes behind what it reads (WireNet).
// 2. Each layer becomes a node by its line in the vocabulary (ir_graph.h): its attributes are
//    parsed, its inputs looked up (AppendLayer).
// 3. What the vocabulary cannot say: constants, results, loops, branches, old forms of LSTMCell and
//    GatherND (Finish). Sequences and attention become several nodes, Identity none, variables a
//    Parameter and a Result.
// 4. Parameters and Results are listed in the file's order, those of variables behind them (Run).
//
// A fault of one layer does not end the translation: a node of an unknown type takes its place
// (PassOver), so that one message lists up to 20 faults.
#include "ops/import/ir_graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

// Turns the edges of a network of OpenVINO's IR into sources of inputs, in an order in which layers
// can be read (WireNet):
//
// 1. ConnectAll: each edge names ports by layer and id. Each input must have exactly one edge.
// 2. Sort: layers by their sources first; of those that are ready the first of the file, so that
//    the order is the same for each run. What is left over is in a cycle, or after one; CycleError
//    finds a layer of it.
// 3. MarkKept: layers that results, parameters and Assigns need. Others are not read, so they may
//    have types that are not supported.

namespace {

std::string DescribeEdge(const IrEdge& edge) {
  return absl::StrCat("edge from layer ", edge.from_layer, " port ", edge.from_port, " to layer ",
                      edge.to_layer, " port ", edge.to_port);
}

absl::StatusOr<size_t> FindLayer(const IrNet& net, const IrEdge& edge, int64_t id) {
  const auto it = net.by_id.find(id);
  if (it == net.by_id.end()) {
    return Invalid(DescribeEdge(edge), ": there is no layer ", id);
  }
  return it->second;
}

absl::Status Connect(const IrNet& net, const IrEdge& edge,
                     std::vector<std::vector<IrSource>>& sources) {
  BW_ASSIGN_OR_RETURN(const size_t from, FindLayer(net, edge, edge.from_layer));
  BW_ASSIGN_OR_RETURN(const size_t to, FindLayer(net, edge, edge.to_layer));
  const int output = net.layers[from].outputs.Find(edge.from_port);
  if (output < 0) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[from]), " has no output port ",
                   edge.from_port);
  }
  const int input = net.layers[to].inputs.Find(edge.to_port);
  if (input < 0) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[to]), " has no input port ",
                   edge.to_port);
  }
  IrSource& source = sources[to][static_cast<size_t>(input)];
  if (source.present()) {
    return Invalid(DescribeEdge(edge), ": ", Describe(net.layers[to]), " input port ", edge.to_port,
                   " already has an edge, from ",
                   Describe(net.layers[static_cast<size_t>(source.node)]));
  }
  source = {static_cast<int>(from), output};
  return absl::OkStatus();
}

absl::Status ConnectAll(const IrNet& net, std::vector<std::vector<IrSource>>& sources) {
  for (const IrLayer& layer : net.layers) {
    sources.emplace_back(layer.inputs.size());
  }
  for (const IrEdge& edge : net.edges) {
    BW_RETURN_IF_ERROR(Connect(net, edge, sources));
  }
  for (size_t i = 0; i < net.layers.size(); ++i) {
    for (size_t input = 0; input < sources[i].size(); ++input) {
      if (!sources[i][input].present()) {
        return Invalid(Describe(net.layers[i]), ": input port ", net.layers[i].inputs[input].id,
                       " is not connected");
      }
    }
  }
  return absl::OkStatus();
}

// Every layer left over by the sort has a source that was left over: walking back ends in a cycle.
absl::Status CycleError(const IrNet& net, const IrWiring& wiring, std::vector<int> pending) {
  size_t layer = 0;
  while (pending[layer] == 0) {
    ++layer;
  }
  std::vector<bool> seen(net.layers.size(), false);
  size_t next = layer;
  do {
    layer = next;
    seen[layer] = true;
    for (const IrSource& source : wiring.sources[layer]) {
      if (pending[static_cast<size_t>(source.node)] > 0) {
        next = static_cast<size_t>(source.node);
        break;
      }
    }
  } while (!seen[next]);
  return Invalid(Describe(net.layers[next]), " is part of a cycle: its value depends on itself, ",
                 "the last edge being from ", Describe(net.layers[layer]));
}

absl::Status Sort(const IrNet& net, IrWiring& wiring) {
  std::vector<int> pending(net.layers.size(), 0);  // inputs whose source has no place yet
  std::vector<std::vector<int>> readers(net.layers.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < net.layers.size(); ++i) {
    for (const IrSource& source : wiring.sources[i]) {
      readers[static_cast<size_t>(source.node)].push_back(static_cast<int>(i));
      ++pending[i];
    }
    if (pending[i] == 0) {
      ready.push(static_cast<int>(i));
    }
  }
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    wiring.order.push_back(layer);
    for (const int reader : readers[static_cast<size_t>(layer)]) {
      if (--pending[static_cast<size_t>(reader)] == 0) {
        ready.push(reader);
      }
    }
  }
  return wiring.order.size() == net.layers.size() ? absl::OkStatus()
                                                  : CycleError(net, wiring, std::move(pending));
}

// Backwards through the order, a layer is known to be needed before its sources are met.
void MarkKept(const IrNet& net, IrWiring& wiring) {
  wiring.kept.resize(net.layers.size(), false);
  for (auto it = wiring.order.rbegin(); it != wiring.order.rend(); ++it) {
    const auto layer = static_cast<size_t>(*it);
    if (IsResult(net.layers[layer]) || IsParameter(net.layers[layer]) ||
        IsAssign(net.layers[layer])) {
      wiring.kept[layer] = true;
    }
    if (wiring.kept[layer]) {
      for (const IrSource& source : wiring.sources[layer]) {
        wiring.kept[static_cast<size_t>(source.node)] = true;
      }
    }
  }
}

}  // namespace

bool IsParameter(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "Parameter"); }
bool IsResult(const IrLayer& layer) { return absl::EqualsIgnoreCase(layer.type, "Result"); }

absl::StatusOr<IrWiring> WireNet(const IrNet& net) {
  IrWiring wiring;
  BW_RETURN_IF_ERROR(ConnectAll(net, wiring.sources));
  BW_RETURN_IF_ERROR(Sort(net, wiring));
  MarkKept(net, wiring);
  return wiring;
}

namespace {

// LSTMCell with W and R joined has its bias, of rank 1, where the other form has R.
bool HasJoinedWeights(const IrLayer& layer) {
  const size_t count = layer.inputs.size();
  if (count == 5 && layer.inputs[4].info.shape.has_rank()) {
    return layer.inputs[4].info.shape.rank() == 1;
  }
  return count == 4 || (count == 5 && layer.version.empty());
}

// For LSTMCell and LSTMSequence.
absl::Status FinishLstm(const IrLayer& layer, Node& node) {
  if (node.attributes.Has("weights_format")) {
    BW_ASSIGN_OR_RETURN(const std::string format, node.attributes.String("weights_format", ""));
    return absl::UnimplementedError(
        absl::StrCat("weights_format '", format, "' is not supported; fico is"));
  }
  if (node.attributes.Has("input_forget")) {
    return absl::UnimplementedError("input_forget is not supported, only false");
  }
  if (node.op == "LSTMCell" && HasJoinedWeights(layer)) {
    node.attributes.Set("weights_joined", true);
  }
  return absl::OkStatus();
}

// Up to opset 7 GatherND made the batch axes into one.
bool JoinsBatch(const IrLayer& layer) {
  return layer.version == "opset5" || layer.version == "opset6" || layer.version == "opset7";
}

absl::Status AddBody(IrImport& import) {
  return ++import.num_bodies > kMaxBodies
             ? Invalid("more than ", kMaxBodies, " bodies of loops and branches")
             : absl::OkStatus();
}

class Builder {
 public:
  Builder(const IrNet& net, const IrWiring& wiring, IrImport& import)
      : net_(net), wiring_(wiring), import_(import), values_(net.layers.size()) {}

  absl::StatusOr<IrGraph> Run() {
    // 2. and 3.
    for (const int index : wiring_.order) {
      if (wiring_.kept[static_cast<size_t>(index)]) {
        BW_RETURN_IF_ERROR(AddOrPassOver(index));
      }
    }
    // 4.
    for (size_t i = 0; i < net_.layers.size(); ++i) {
      const IrLayer& layer = net_.layers[i];
      if (IsParameter(layer)) {
        result_.parameters[layer.id] = static_cast<int>(result_.graph.parameters.size());
        result_.graph.parameters.push_back(values_[i][0].node);
      } else if (IsResult(layer)) {
        result_.results[layer.id] = static_cast<int>(result_.graph.results.size());
        result_.graph.results.push_back(results_.at(static_cast<int>(i)));
      }
    }
    for (const int parameter : variables_.parameters()) {
      result_.graph.parameters.push_back(parameter);
    }
    for (const int result : variables_.results()) {
      result_.graph.results.push_back(result);
    }
    return std::move(result_);
  }

 private:
  int Append(Node node) {
    result_.graph.nodes.push_back(std::move(node));
    return static_cast<int>(result_.graph.nodes.size()) - 1;
  }

  // An error only where nothing further is looked at.
  absl::Status AddOrPassOver(int index) {
    const IrLayer& layer = net_.layers[static_cast<size_t>(index)];
    const absl::Status status = Annotate(AddLayer(index), Describe(layer));
    if (status.ok()) {
      return status;
    }
    const bool goes_on = CanGoOn(status);
    if (import_.depth > 0) {
      return status;  // it is the loop's
    }
    // The wrong .bin would make a fault of every constant.
    const bool is_listed = layer.type == "Const" && std::exchange(constant_failed_, true);
    if (!is_listed) {
      import_.faults.push_back(status);
    }
    PassOver(index);
    return goes_on ? absl::OkStatus() : JoinErrors(import_.faults);
  }

  // Whether other layers are looked at in spite of a fault, so that one message names all of them.
  bool CanGoOn(const absl::Status& status) const {
    constexpr size_t kMostFaults = 20;
    return (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) &&
           import_.faults.size() + 1 < kMostFaults;
  }

  // Puts a node of an unknown type, with the outputs that the file declares, in a layer's place.
  void PassOver(int index) {
    const IrLayer& layer = net_.layers[static_cast<size_t>(index)];
    Node node;
    node.op = "passed over";
    node.name = layer.name;
    for (const IrPort& port : layer.outputs.list) {
      node.outputs.push_back(port.info);
    }
    node.outputs.resize(std::max<size_t>(node.outputs.size(), 1));
    const size_t num_outputs = node.outputs.size();
    const int added = Append(std::move(node));
    values_[static_cast<size_t>(index)].clear();
    for (size_t i = 0; i < num_outputs; ++i) {
      values_[static_cast<size_t>(index)].push_back({added, static_cast<int>(i)});
    }
    results_[index] = added;
  }

  absl::Status AddLayer(int index) {
    const size_t nodes_before = result_.graph.nodes.size();
    BW_RETURN_IF_ERROR(AppendLayer(index));
    SetFileOperator(net_.layers[static_cast<size_t>(index)].type, nodes_before, result_.graph);
    return absl::OkStatus();
  }

  absl::Status AppendLayer(int index) {
    const IrLayer& layer = net_.layers[static_cast<size_t>(index)];
    const LayerType* type = FindLayerType(layer.type);
    if (type == nullptr) {
      AddUnknown(layer);
    }
    Node node;
    node.op = type == nullptr ? layer.type : type->op;
    node.name = layer.name;
    BW_ASSIGN_OR_RETURN(node.attributes, ReadAttributes(type, layer));
    for (const IrSource& source : wiring_.sources[static_cast<size_t>(index)]) {
      const std::vector<ValueId>& given = values_[static_cast<size_t>(source.node)];
      if (static_cast<size_t>(source.output) >= given.size()) {
        return Invalid("reads output ", source.output, " of ",
                       Describe(net_.layers[static_cast<size_t>(source.node)]), ", which has ",
                       given.size());
      }
      node.inputs.push_back(given[static_cast<size_t>(source.output)]);
    }
    std::vector<ValueId>& values = values_[static_cast<size_t>(index)];
    if (IsReadValue(layer) || IsAssign(layer)) {
      BW_ASSIGN_OR_RETURN(const ValueId value, AddVariable(layer, node.inputs));
      values.assign(std::max<size_t>(layer.outputs.size(), 1), value);
      return absl::OkStatus();
    }
    for (const IrPort& port : layer.outputs.list) {
      node.outputs.push_back(port.info);
    }
    BW_RETURN_IF_ERROR(Finish(layer, node));
    if (IsSequence(node.op)) {
      BW_RETURN_IF_ERROR(AddBody(import_));
      BW_ASSIGN_OR_RETURN(values, AppendSequence(node, result_.graph));
      return absl::OkStatus();
    }
    if (node.op == "ScaledDotProductAttention") {
      BW_ASSIGN_OR_RETURN(const ValueId value, AppendAttention(node, result_.graph));
      values = {value};
      return absl::OkStatus();
    }
    if (node.op == "Identity") {
      return PassOn(node, values);
    }
    const size_t num_outputs = node.outputs.size();
    const bool is_result = node.op == "Result";
    const int added = Append(std::move(node));
    for (size_t i = 0; i < num_outputs; ++i) {
      values.push_back({added, static_cast<int>(i)});
    }
    if (is_result) {
      results_[index] = added;
    }
    return absl::OkStatus();
  }

  // The layer's names become further names of what it reads.
  absl::Status PassOn(const Node& node, std::vector<ValueId>& values) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1) {
      return Invalid("has ", node.inputs.size(), " inputs and ", node.outputs.size(),
                     " outputs; it has one of each");
    }
    values = node.inputs;
    std::vector<std::string>& names =
        result_.graph.node(values[0].node).outputs[static_cast<size_t>(values[0].output)].names;
    names.insert(names.end(), node.outputs[0].names.begin(), node.outputs[0].names.end());
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> AddVariable(const IrLayer& layer, const std::vector<ValueId>& inputs) {
    if (import_.depth > 0) {
      return absl::UnimplementedError("a variable inside a loop or branch is not supported");
    }
    return IsAssign(layer) ? variables_.Write(layer, inputs, result_.graph)
                           : variables_.Read(layer, inputs, result_.graph);
  }

  void AddUnknown(const IrLayer& layer) {
    if (import_.num_unknown++ < IrImport::kMostUnknownListed) {
      import_.unknown.push_back(
          absl::StrCat(import_.where, Describe(layer),
                       layer.version.empty() ? "" : absl::StrCat(" of ", layer.version)));
    }
  }

  // What the generic translation does not do.
  absl::Status Finish(const IrLayer& layer, Node& node) {
    if (node.op == "Parameter") {
      BW_ASSIGN_OR_RETURN(ValueInfo info, ReadDeclaredInfo(layer));
      node.outputs = {std::move(info)};
    } else if (node.op == "Constant") {
      BW_ASSIGN_OR_RETURN(node.constant, import_.weights.Read(layer));
      node.outputs[0].dtype = node.constant.dtype();
      node.outputs[0].shape = PartialShape(node.constant.shape());
    } else if (node.op == "Result") {
      return FinishResult(layer, node);
    } else if (IsLoop(layer)) {
      return FinishLoop(layer, node);
    } else if (node.op == "If") {
      const Tensor condition =
          node.inputs.empty() ? Tensor() : result_.graph.node(node.inputs[0].node).constant;
      BW_ASSIGN_OR_RETURN(If branches, TranslateIf(layer, condition, import_));
      node.branches = std::make_shared<const If>(std::move(branches));
    } else if (absl::StartsWith(node.op, "LSTM")) {
      return FinishLstm(layer, node);
    } else if (node.op == "GatherND" && JoinsBatch(layer)) {
      node.attributes.Set("joins_batch", true);
    }
    return absl::OkStatus();
  }

  absl::Status FinishResult(const IrLayer& layer, Node& node) {
    if (node.inputs.size() != 1) {
      return Invalid("has ", node.inputs.size(), " inputs; it must have one");
    }
    node.outputs.clear();
    // The file's name for the value, if the layer that computes it does not bear one.
    const std::vector<std::string> names = ParseNames(layer.xml.attribute("output_names").value());
    if (!names.empty() && result_.graph.info(node.inputs[0]).names.empty()) {
      node.name = names.front();
    }
    return absl::OkStatus();
  }

  absl::Status FinishLoop(const IrLayer& layer, Node& node) {
    BW_ASSIGN_OR_RETURN(IrLoop loop, TranslateLoop(layer, node.inputs, import_));
    if (loop.trip_count.has_value()) {
      Node count;
      count.op = "Constant";
      count.name = absl::StrCat(layer.name, "/trip_count");
      count.constant = Tensor(DType::kI64, Shape{});
      *count.constant.mutable_data<int64_t>() = *loop.trip_count;
      count.outputs.resize(1);
      count.outputs[0].dtype = DType::kI64;
      count.outputs[0].shape = PartialShape(Shape{});
      loop.loop.trip_count_input = static_cast<int>(node.inputs.size());
      node.inputs.push_back({Append(std::move(count)), 0});
    }
    node.loop = std::make_shared<const Loop>(std::move(loop.loop));
    return absl::OkStatus();
  }

  const IrNet& net_;
  const IrWiring& wiring_;
  IrImport& import_;
  std::vector<std::vector<ValueId>> values_;  // [layer][output]; empty: not added
  absl::flat_hash_map<int, int> results_;     // Result layers (by index) -> nodes
  IrVariables variables_;
  bool constant_failed_ = false;
  IrGraph result_;
};

}  // namespace

absl::StatusOr<IrGraph> BuildGraph(pugi::xml_node xml, IrImport& import) {
  // 1.
  BW_ASSIGN_OR_RETURN(const IrNet net, ReadNet(xml));
  BW_ASSIGN_OR_RETURN(const IrWiring wiring, WireNet(net));
  BW_ASSIGN_OR_RETURN(IrGraph result, Builder(net, wiring, import).Run());
  result.graph.name = xml.attribute("name").value();
  return result;
}

absl::StatusOr<IrGraph> BuildInnerGraph(const IrLayer& layer, const char* element,
                                        IrImport& import) {
  const pugi::xml_node xml = layer.xml.child(element);
  if (!xml) {
    return Invalid("has no <", element, ">");
  }
  if (import.depth == kMaxLoopDepth) {
    return Invalid("loops and branches are nested more than ", kMaxLoopDepth, " deep");
  }
  BW_RETURN_IF_ERROR(AddBody(import));
  std::string outside = import.where;
  absl::StrAppend(&import.where, Describe(layer), ": ", element, ": ");
  ++import.depth;
  absl::StatusOr<IrGraph> body = BuildGraph(xml, import);
  --import.depth;
  import.where = std::move(outside);
  if (!body.ok()) {
    return Annotate(body.status(), element);
  }
  return body;
}

}  // namespace beamwright::ops
