// Tables of what a step computes of its token alone, in the order of TableMaker::Run:
//
// 1. The memory that tables may take is a share of the body's constants.
// 2. Cells whose X is of the token scope give up their product X * W^T (SplitCells).
// 3. Values that other scopes read are candidates; each must be one row for each token by the rules
//    of rows, be more than moved elements, and fit (FindValues).
// 4. The tables are filled for 256 tokens at a time; 64 tokens are computed alone as well, and
// every
//    bit must agree, or there are no tables (Compute).
// 5. A look-up takes the place of each value (LookUp), and what nothing reads any more goes
// (Finish).
#include "ops/decoder/token_tables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/compile/program.h"
#include "ops/compile/row_proof.h"
#include "ops/compile/scopes.h"
#include "ops/graph/rewrite.h"

namespace beamwright::ops {
namespace {

// A graph together with what inference found of it, for passes that put a few nodes of known types
// and shapes in the place of others: inferring the graph anew would lose what is known of a body's
// Parameters, and costs what the first time cost.

struct InferredGraph {
  Graph graph;
  GraphInfo info;

  // Each returns the new node's first output. The caller has inferred types and shapes.
  ValueId Append(Node node, std::vector<Tensor> constants,
                 std::vector<std::shared_ptr<const GraphInfo>> bodies = {});
  ValueId AppendConstant(const std::string& name, Tensor value);
  ValueId AppendOperator(const std::string& op, const std::string& name,
                         std::vector<ValueId> inputs, DType dtype, PartialShape shape);
  // Drops the nodes that no Result depends on; Parameters stay.
  void DropUnread();
};

// A graph anew, node by node. change(index, node, result) gets each old node with its inputs moved,
// appends what is to stand in its place, and returns the index of the node that others shall read.
template <typename Change>
InferredGraph Rebuild(const Graph& graph, Change change) {
  InferredGraph result;
  result.graph.name = graph.name;
  std::vector<int> moved;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    for (ValueId& input : node.inputs) {
      input.node = input.present() ? moved[static_cast<size_t>(input.node)] : -1;
    }
    moved.push_back(change(static_cast<int>(i), std::move(node), result));
  }
  for (const int parameter : graph.parameters) {
    result.graph.parameters.push_back(moved[static_cast<size_t>(parameter)]);
  }
  for (const int node : graph.results) {
    result.graph.results.push_back(moved[static_cast<size_t>(node)]);
  }
  return result;
}

ValueId InferredGraph::Append(Node node, std::vector<Tensor> constants,
                              std::vector<std::shared_ptr<const GraphInfo>> bodies) {
  graph.nodes.push_back(std::move(node));
  info.constants.push_back(std::move(constants));
  info.bodies.push_back(std::move(bodies));
  return {static_cast<int>(graph.nodes.size()) - 1, 0};
}

ValueId InferredGraph::AppendConstant(const std::string& name, Tensor value) {
  Node node;
  node.op = "Constant";
  node.name = name;
  node.outputs = {{value.dtype(), PartialShape(value.shape()), {}}};
  node.constant = value;
  return Append(std::move(node), {std::move(value)});
}

ValueId InferredGraph::AppendOperator(const std::string& op, const std::string& name,
                                      std::vector<ValueId> inputs, DType dtype,
                                      PartialShape shape) {
  Node node;
  node.op = op;
  node.name = name;
  node.inputs = std::move(inputs);
  node.outputs = {{dtype, std::move(shape), {}}};
  return Append(std::move(node), {Tensor()});
}

void InferredGraph::DropUnread() {
  std::vector<ValueId> wanted;
  for (const int node : graph.results) {
    wanted.push_back({node, 0});
  }
  std::vector<bool> keep = AncestorsOf(graph, wanted);
  for (const int node : graph.parameters) {
    keep[static_cast<size_t>(node)] = true;
  }
  GraphInfo kept;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) {
      kept.constants.push_back(std::move(info.constants[i]));
      kept.bodies.push_back(std::move(info.bodies[i]));
    }
  }
  info = std::move(kept);
  graph = KeepNodes(graph, keep);
}

// Tokens computed together, so that the values on the way stay small.
constexpr int64_t kChunk = 256;
// Tokens computed alone as well, to compare.
constexpr int64_t kCompared = 64;

// Whether the operator only looks rows up or moves elements: a table of what it gives would save
// nothing.
bool OnlyMoves(const Node& node) {
  static constexpr absl::string_view kMoves[] = {
      "Broadcast", "Concat", "Constant", "Convert", "Gather",  "Parameter", "Range",
      "Reshape",   "Result", "ShapeOf",  "Slice",   "Squeeze", "Transpose", "Unsqueeze"};
  return std::find(std::begin(kMoves), std::end(kMoves), node.op) != std::end(kMoves);
}

// A value that is worth a table.
struct TabledValue {
  ValueId value;
  int row_axis = 0;
  Shape row;  // what follows that axis
  Tensor table;
};

class TableMaker {
 public:
  TableMaker(const TokenTableOptions& options, const OperatorSet& operators, Loop& loop,
             GraphInfo& info)
      : options_(options), operators_(operators), loop_(loop), info_(info) {}

  TokenTables Run() {
    TokenTables made;
    for (const LoopInput& rule : loop_.inputs) {
      token_rule_ = rule.kind == LoopInput::Kind::kSliced ? &rule : token_rule_;
    }
    if (token_rule_ == nullptr || options_.num_tokens < 1 || !(options_.max_share > 0)) {
      return made;
    }
    // 1.
    left_bytes_ = static_cast<int64_t>(options_.max_share * static_cast<double>(ConstantBytes()));
    // 2.
    split_ = loop_;
    InferredGraph apart = SplitCells();
    split_.body = std::move(apart.graph);
    split_info_ = std::move(apart.info);
    // 3.
    FindValues();
    if (values_.empty()) {
      return made;
    }
    // 4.
    if (const absl::Status status = Compute(); !status.ok()) {
      made.refused = std::string(status.message());
      return made;
    }
    for (const TabledValue& tabled : values_) {
      ++made.count;
      made.bytes += tabled.table.num_bytes();
    }
    // 5.
    Finish(LookUp());
    return made;
  }

 private:
  int64_t ConstantBytes() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < loop_.body.nodes.size(); ++i) {
      // Of Constants, and of Parameters that are known; what follows from them does not count.
      const bool source = loop_.body.nodes[i].inputs.empty();
      for (const Tensor& constant : info_.constants[i]) {
        bytes += source && constant.has_value() ? constant.num_bytes() : 0;
      }
    }
    return bytes;
  }

  bool Fits(int64_t row_bytes) {
    if (row_bytes <= 0 || row_bytes > left_bytes_ / options_.num_tokens) {
      return false;
    }
    left_bytes_ -= row_bytes * options_.num_tokens;
    return true;
  }

  // The body with the products of token-scope inputs taken out of its cells, where their tables
  // fit.
  InferredGraph SplitCells() {
    const std::vector<Scope> scopes = FindScopes(loop_, info_);
    return Rebuild(loop_.body, [&](int index, Node node, InferredGraph& result) {
      const Node& old = loop_.body.node(index);
      const auto at = static_cast<size_t>(index);
      const std::vector<InputInfo> inputs = info_.InputsOf(loop_.body, old);
      const auto product = FindCellProduct(old, inputs);
      if (scopes[at] != Scope::kRow || !product.has_value() ||
          scopes[static_cast<size_t>(old.inputs[0].node)] != Scope::kToken ||
          !inputs[0].shape.has_rank() || inputs[0].shape.rank() != 2 ||
          inputs[0].shape.dim(1) == PartialShape::kDynamic) {
        return result.Append(std::move(node), info_.constants[at], info_.bodies[at]).node;
      }
      const Tensor& weight = *inputs[product->weight].value;
      const int64_t width = inputs[0].shape.dim(1);
      if (!Fits(weight.dim(0) * SizeOf(DType::kF32))) {
        return result.Append(std::move(node), info_.constants[at], info_.bodies[at]).node;
      }
      const std::string name = absl::StrCat(node.name, "/input_product");
      const ValueId w =
          result.AppendConstant(name, product->joined ? Columns(weight, 0, width) : weight);
      ValueId recurrent;
      if (product->joined) {
        recurrent = result.AppendConstant(absl::StrCat(node.name, "/R"),
                                          Columns(weight, width, weight.dim(1) - width));
      }
      const ValueId x =
          result.AppendOperator("MatMul", name, {node.inputs[0], w}, DType::kF32,
                                PartialShape({inputs[0].shape.dim(0), weight.dim(0)}));
      result.graph.nodes.back().attributes.Set("transpose_b", true);
      reserved_.push_back(x);
      TakeProduct(*product, x, recurrent, node);
      return result.Append(std::move(node), info_.constants[at], info_.bodies[at]).node;
    });
  }

  // What others than token-scope nodes read of the token scope, as far as it is rows of known
  // extents, is worth a table and fits.
  void FindValues() {
    scopes_ = FindScopes(split_, split_info_);
    const std::vector<RowInfo> rows = FindRows(split_, split_info_, operators_, scopes_);
    const Graph& graph = split_.body;
    std::vector<bool> computes(graph.nodes.size(), false);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const bool token = scopes_[i] == Scope::kToken;
      computes[i] = token && !OnlyMoves(graph.nodes[i]);
      for (const ValueId id : graph.nodes[i].inputs) {
        computes[i] =
            computes[i] || (token && id.present() && computes[static_cast<size_t>(id.node)]);
      }
    }
    std::vector<ValueId> found;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const bool reads = scopes_[i] != Scope::kToken || graph.nodes[i].op == "Result";
      for (const ValueId id : graph.nodes[i].inputs) {
        if (reads && id.present() && computes[static_cast<size_t>(id.node)] &&
            std::find(found.begin(), found.end(), id) == found.end()) {
          found.push_back(id);
        }
      }
    }
    for (const ValueId id : found) {
      Consider(id, rows[static_cast<size_t>(id.node)]);
    }
  }

  void Consider(ValueId id, const RowInfo& rows) {
    const ValueInfo& info = split_.body.info(id);
    if (rows.kind != RowInfo::Kind::kRows || rows.factor != 1 || !info.shape.has_rank() ||
        info.shape.rank() <= rows.axis) {
      return;
    }
    TabledValue tabled{id, rows.axis, {}, {}};
    int64_t elements = 1;
    for (int axis = 0; axis < info.shape.rank(); ++axis) {
      const int64_t extent = info.shape.dim(axis);
      if (axis == rows.axis) {
        continue;
      }
      if (extent < 1 || extent > left_bytes_ || (axis < rows.axis && extent != 1)) {
        return;
      }
      if (axis > rows.axis) {
        tabled.row.push_back(extent);
      }
      elements = elements > left_bytes_ / extent ? left_bytes_ + 1 : elements * extent;
    }
    const bool reserved = std::find(reserved_.begin(), reserved_.end(), id) != reserved_.end();
    if (reserved || (elements <= left_bytes_ && Fits(elements * SizeOf(info.dtype)))) {
      values_.push_back(std::move(tabled));
    }
  }

  Tensor Tokens(int64_t first, int64_t count) const {
    const auto index = static_cast<size_t>(token_rule_->body_parameter);
    const ValueInfo& info = split_.body.node(split_.body.parameters[index]).outputs[0];
    const Shape shape = token_rule_->drop_axis   ? Shape{count}
                        : token_rule_->axis == 0 ? Shape{1, count}
                                                 : Shape{count, 1};
    Tensor tokens(info.dtype, shape);
    for (int64_t i = 0; i < count; ++i) {
      if (info.dtype == DType::kI32) {
        tokens.mutable_data<int32_t>()[i] = static_cast<int32_t>(first + i);
      } else {
        tokens.mutable_data<int64_t>()[i] = first + i;
      }
    }
    return tokens;
  }

  // Fills the tables.
  absl::Status Compute() {
    std::vector<ValueId> wanted;
    for (TabledValue& tabled : values_) {
      wanted.push_back(tabled.value);
      Shape shape = tabled.row;
      shape.insert(shape.begin(), options_.num_tokens);
      BW_RETURN_IF_ERROR(CheckedNumElements(shape).status());
      tabled.table = Tensor(split_.body.info(tabled.value).dtype, shape);
    }
    BW_ASSIGN_OR_RETURN(
        const Program program,
        Program::Compile(split_.body, split_info_, operators_, AncestorsOf(split_.body, wanted)));
    Slots slots = program.MakeSlots();
    for (int64_t first = 0; first < options_.num_tokens; first += kChunk) {
      const int64_t count = std::min(kChunk, options_.num_tokens - first);
      BW_RETURN_IF_ERROR(RunTokens(program, first, count, slots));
      for (TabledValue& tabled : values_) {
        const Tensor& value = slots[static_cast<size_t>(program.slot(tabled.value))];
        Tensor part = tabled.table.Rows(first, first + count);
        std::memcpy(part.mutable_bytes(), value.bytes(), static_cast<size_t>(value.num_bytes()));
      }
    }
    const int64_t step = std::max<int64_t>(options_.num_tokens / kCompared, 1);
    for (int64_t token = 0; token < options_.num_tokens; token += step) {
      BW_RETURN_IF_ERROR(RunTokens(program, token, 1, slots));
      for (const TabledValue& tabled : values_) {
        const Tensor& value = slots[static_cast<size_t>(program.slot(tabled.value))];
        const Tensor row = tabled.table.Rows(token, token + 1);
        if (std::memcmp(row.bytes(), value.bytes(), static_cast<size_t>(value.num_bytes())) != 0) {
          return absl::InternalError(absl::StrCat(Describe(split_.body.node(tabled.value.node)),
                                                  ": token ", token,
                                                  " has other bits alone than among others"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunTokens(const Program& program, int64_t first, int64_t count, Slots& slots) const {
    const auto index = static_cast<size_t>(token_rule_->body_parameter);
    slots[static_cast<size_t>(program.slot({split_.body.parameters[index], 0}))] =
        Tokens(first, count);
    BW_RETURN_IF_ERROR(program.Run(options_.context, slots));
    for (const TabledValue& tabled : values_) {
      Shape expected(static_cast<size_t>(tabled.row_axis), 1);
      expected.push_back(count);
      expected.insert(expected.end(), tabled.row.begin(), tabled.row.end());
      const Tensor& value = slots[static_cast<size_t>(program.slot(tabled.value))];
      if (!value.has_value() || value.shape() != expected ||
          value.dtype() != tabled.table.dtype()) {
        return absl::InternalError(absl::StrCat(Describe(split_.body.node(tabled.value.node)),
                                                " gives no row for each token"));
      }
    }
    return absl::OkStatus();
  }

  // The body with look-ups in the place of what the tables hold.
  InferredGraph LookUp() const {
    std::map<std::pair<int, int>, ValueId> replaced;  // by node and output
    ValueId tokens;
    const auto index = static_cast<size_t>(token_rule_->body_parameter);
    const int parameter = split_.body.parameters[index];
    return Rebuild(split_.body, [&](int old, Node node, InferredGraph& result) {
      // Look-ups have one output each; values of nodes with several are replaced where they are
      // read.
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId input = split_.body.node(old).inputs[i];
        const auto found = replaced.find({input.node, input.output});
        node.inputs[i] = found == replaced.end() ? node.inputs[i] : found->second;
      }
      const auto at = static_cast<size_t>(old);
      const int kept =
          result.Append(std::move(node), split_info_.constants[at], split_info_.bodies[at]).node;
      if (old == parameter) {
        tokens = FlatTokens({kept, 0}, result);
      }
      for (const TabledValue& tabled : values_) {
        if (tabled.value.node == old) {
          replaced[{old, tabled.value.output}] = AppendLookUp(tabled, tokens, result);
        }
      }
      return kept;
    });
  }

  ValueId FlatTokens(ValueId tokens, InferredGraph& result) const {
    if (token_rule_->drop_axis) {
      return tokens;
    }
    const DType dtype = result.graph.info(tokens).dtype;
    const ValueId flat =
        result.AppendConstant("tokens/flat", Tensor::Of<int64_t>({1}, std::vector<int64_t>{-1}));
    const ValueId list = result.AppendOperator("Reshape", "tokens/list", {tokens, flat}, dtype,
                                               PartialShape({PartialShape::kDynamic}));
    result.graph.nodes.back().attributes.Set("special_zero", false);
    return list;
  }

  ValueId AppendLookUp(const TabledValue& tabled, ValueId tokens, InferredGraph& result) const {
    const std::string name =
        absl::StrCat(split_.body.node(tabled.value.node).name, "/table_per_token");
    const ValueInfo& info = split_.body.info(tabled.value);
    const ValueId table = result.AppendConstant(name, tabled.table);
    const ValueId axis =
        result.AppendConstant(absl::StrCat(name, "/axis"), Tensor::Scalar(int64_t{0}));
    Shape shape = tabled.row;
    shape.insert(shape.begin(), PartialShape::kDynamic);
    const ValueId rows = result.AppendOperator("Gather", name, {table, tokens, axis}, info.dtype,
                                               PartialShape(shape));
    if (tabled.row_axis == 0) {
      return rows;
    }
    shape.insert(shape.begin(), static_cast<size_t>(tabled.row_axis), 1);
    std::vector<int64_t> target(shape.begin(), shape.end());
    const ValueId list =
        result.AppendConstant(absl::StrCat(name, "/shape"),
                              Tensor::Of<int64_t>({static_cast<int64_t>(target.size())}, target));
    const ValueId moved = result.AppendOperator("Reshape", absl::StrCat(name, "/rows"),
                                                {rows, list}, info.dtype, PartialShape(shape));
    result.graph.nodes.back().attributes.Set("special_zero", false);
    return moved;
  }

  // Takes the body over, without what is no longer read.
  void Finish(InferredGraph body) {
    body.DropUnread();
    loop_.body = std::move(body.graph);
    info_ = std::move(body.info);
  }

  const TokenTableOptions& options_;
  const OperatorSet& operators_;
  Loop& loop_;
  GraphInfo& info_;
  const LoopInput* token_rule_ = nullptr;
  int64_t left_bytes_ = 0;
  Loop split_;
  GraphInfo split_info_;
  std::vector<ValueId> reserved_;  // products taken out of cells: their tables' memory is counted
  std::vector<Scope> scopes_;
  std::vector<TabledValue> values_;
};

}  // namespace

TokenTables AddTokenTables(const TokenTableOptions& options, const OperatorSet& operators,
                           Loop& loop, GraphInfo& body_info) {
  return TableMaker(options, operators, loop, body_info).Run();
}

}  // namespace beamwright::ops
