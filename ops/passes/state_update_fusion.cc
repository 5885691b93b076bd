// JoinStateUpdates: operator fusion of layers whose memory is a matrix for each row and head, found
// in what files spell out. Reads context.states.
//
//   before: next = state * decay + key value^T, with a delta rule or not; MatMul, ReduceSum of a
//           product or Einsum with a query reads it
//   after:  StateUpdate (ops/kernels/state_update.h), which passes over the state once, not five
//           times. Sums are taken in another order: results differ in their last bits.
//
// How a state is found: 1. its next value is a sum of terms; 2. each term is a product of factors,
// one of the terms with the state itself; 3. the other factors vary along one of the state's last
// two axes, or along none; 4. a factor that was read from the state means a delta rule, and shows
// which axis is that of the keys; 5. so does what is read from the next state.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/compile/graph_copy.h"
#include "ops/kernels/state_update.h"
#include "ops/passes/matrix_terms.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// A state, and the value that becomes the next one.
struct CarriedValue {
  ValueId state;
  ValueId next;
};

// Of a term without the state.
struct Outer {
  Factors columns;
  Factors rows;
  Factors scalars;
};

struct Update {
  ValueId state;
  int root = -1;  // the node of the next state
  std::string rule = "sum";
  bool keys_last = false;
  Factors decay;
  Factors key;
  Factors value;
  Factors rate;
  std::optional<Factor> erase;
  Factors write;
  bool negative = false;  // the value
  bool negative_write = false;
  int read = -1;  // the node that reads the next state with `query`
  std::optional<Factor> query;
};

class UpdateFinder : private MatrixTerms {
 public:
  UpdateFinder(absl::Span<const CarriedValue> states, const Graph& graph, const GraphInfo& info)
      : MatrixTerms(graph, info),
        states_(states),
        graph_(graph),
        info_(info),
        readers_(ReadersByNode(graph)),
        copy_(graph),
        update_of_(graph.nodes.size(), -1),
        is_done_(graph.nodes.size(), false) {}

  // Finds all updates first and writes the graph then, because a query may depend on nodes that
  // come after the state which it reads.
  std::optional<Graph> Run() {
    for (const CarriedValue& carried : states_) {
      if (std::optional<Update> update = Find(carried); update.has_value()) {
        update_of_[static_cast<size_t>(update->root)] = static_cast<int>(updates_.size());
        updates_.push_back(*std::move(update));
      }
    }
    if (updates_.empty()) {
      return std::nullopt;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Emit(static_cast<int>(i));
    }
    return DropUnneeded(std::move(copy_).Finish());
  }

 private:
  bool IsState(ValueId id, ValueId state) const { return Plain(id) == state; }

  // Steps 1 to 4: what a state's next value is made of, or nothing. The terms are sorted into
  // three: the one with the state itself (its other factors are the decay), products of the state
  // with an outer product (TakePairProduct), and outer products of a column and a row. Of these one
  // at most may be plain, key and value; the others have to be a delta rule.
  std::optional<Update> Find(const CarriedValue& carried) const {
    const ValueId root = Plain(carried.next);
    const PartialShape& shape = ShapeOf(root);
    if (!root.present() || graph_.info(root).dtype != DType::kF32 || !shape.has_rank() ||
        shape.rank() < 3 || shape.rank() > 4 || ShapeOf(carried.state) != shape ||
        std::any_of(shape.dims().begin() + 1, shape.dims().end(),
                    [](int64_t extent) { return extent < 1; })) {
      return std::nullopt;
    }
    const MatrixShape of = {shape.dim(shape.rank() - 2), shape.dims().back()};
    std::vector<Term> terms;
    if (of.m < 2 || of.n < 2 || !AddTerms(root, of, false, terms) || terms.size() < 2) {
      return std::nullopt;
    }
    Update update;
    update.state = carried.state;
    update.root = root.node;
    int num_state_terms = 0;
    std::vector<Term> outer;
    Term pair;
    for (Term& term : terms) {
      const auto is_state = [&](const Factor& f) { return IsState(f.value, carried.state); };
      const auto at = std::find_if(term.factors.begin(), term.factors.end(), is_state);
      if (at == term.factors.end()) {
        if (!TakePairProduct(term, carried.state, of, update)) {
          outer.push_back(term);
        }
        continue;
      }
      term.factors.erase(at);
      if (++num_state_terms > 1 || term.negative) {
        return std::nullopt;
      }
      update.decay = term.factors;
    }
    if (num_state_terms != 1 || !FitDecay(update.decay, of, shape)) {
      return std::nullopt;
    }
    std::optional<Outer> plain;
    for (const Term& term : outer) {
      Factors columns;
      Factors rows;
      Factors scalars;
      for (const Factor& factor : term.factors) {
        Factors* const list = Is(factor, of.m, 1)   ? &columns
                              : Is(factor, 1, of.n) ? &rows
                              : Is(factor, 1, 1)    ? &scalars
                                                    : nullptr;
        if (list == nullptr || !IsVector(factor, shape)) {
          return std::nullopt;
        }
        list->push_back(factor);
      }
      if (columns.empty() || rows.empty()) {
        return std::nullopt;
      }
      if (TakePair(term, columns, rows, scalars, of, update) ||
          TakeDelta(term, columns, rows, scalars, of, update)) {
        continue;
      }
      if (plain.has_value()) {
        return std::nullopt;
      }
      plain = {columns, rows, scalars};
      update.negative = term.negative;
    }
    if (plain.has_value() == (update.rule == "delta")) {
      return std::nullopt;
    }
    update.keys_last = update.keys_last || update.rule == "sum";
    FindRead(root, of, update);
    if (plain.has_value()) {
      update.key = update.keys_last ? plain->rows : plain->columns;
      update.value = update.keys_last ? plain->columns : plain->rows;
      update.value.insert(update.value.end(), plain->scalars.begin(), plain->scalars.end());
    }
    return update;
  }

  // A decay has one number for the whole matrix, for each row of it, for each column, or for each
  // element.
  bool FitDecay(const Factors& factors, MatrixShape of, const PartialShape& state) const {
    return std::all_of(factors.begin(), factors.end(), [&](const Factor& factor) {
      const std::optional<MatrixShape> last = LastTwo(factor);
      return last.has_value() && IsVector(factor, state) && (last->m == 1 || last->m == of.m) &&
             (last->n == 1 || last->n == of.n);
    });
  }

  // Whether what is in front of a factor's last two axes goes with the state.
  bool IsVector(const Factor& factor, const PartialShape& state) const {
    const std::optional<Shape> shape = ShapeOf(factor);
    if (!shape.has_value() || static_cast<int>(shape->size()) > state.rank()) {
      return false;
    }
    const size_t missing = static_cast<size_t>(state.rank()) - shape->size();
    for (size_t axis = 0; axis + 2 < shape->size(); ++axis) {
      const int64_t extent = (*shape)[axis];
      if (extent != 1 && extent != state.dims()[axis + missing]) {
        return false;
      }
    }
    return true;
  }

  // state @ (a b^T), as RWKV-7 is written.
  bool TakePairProduct(const Term& term, ValueId state, MatrixShape of, Update& update) const {
    if (term.factors.size() != 1 || update.rule != "sum") {
      return false;
    }
    const Node& node = NodeOf(term.factors[0].value);
    if (node.op != "MatMul" || Transposes(node, "transpose_a") || Transposes(node, "transpose_b") ||
        !IsState(node.inputs[0], state)) {
      return false;
    }
    Factors factors;
    const MatrixShape square = {of.n, of.n};
    AddFactors({node.inputs[1], {}}, square, factors);
    Factors columns;
    Factors rows;
    for (const Factor& factor : factors) {
      (Is(factor, of.n, 1) ? columns : rows).push_back(factor);
    }
    if (columns.size() != 1 || rows.empty() ||
        !std::all_of(rows.begin(), rows.end(),
                     [&](const Factor& f) { return Is(f, 1, of.n) || Is(f, 1, 1); })) {
      return false;
    }
    update.rule = "pair";
    update.keys_last = true;
    update.erase = columns[0];
    update.write = rows;
    update.negative_write = term.negative;
    return true;
  }

  // (state a) b^T.
  bool TakePair(const Term& term, const Factors& columns, const Factors& rows,
                const Factors& scalars, MatrixShape of, Update& update) const {
    if (update.rule != "sum") {
      return false;
    }
    for (const bool last : {true, false}) {
      const Factors& values = last ? columns : rows;
      if (values.size() != 1) {
        continue;
      }
      const std::optional<Contraction> read = ReadFrom(values[0].value, of);
      if (read.has_value() && read->over_last == last && IsState(read->matrix, update.state)) {
        update.rule = "pair";
        update.keys_last = last;
        update.erase = read->vector;
        update.write = last ? rows : columns;
        update.write.insert(update.write.end(), scalars.begin(), scalars.end());
        update.negative_write = term.negative;
        return true;
      }
    }
    return false;
  }

  // key (rate * (value - (state * decay)^T key))^T.
  bool TakeDelta(const Term& term, const Factors& columns, const Factors& rows,
                 const Factors& scalars, MatrixShape of, Update& update) const {
    if (update.rule != "sum" || term.negative || !scalars.empty()) {
      return false;
    }
    for (const bool last : {true, false}) {
      const Factors& keys = last ? rows : columns;
      const Factors& values = last ? columns : rows;
      const ValueId product = values.size() == 1 ? Unshaped(values[0].value) : ValueId{};
      if (!product.present()) {
        continue;
      }
      const Node& node = NodeOf(product);
      for (const size_t side : {0, 1}) {
        // rate * (value - known), or without a rate.
        const bool has_rate = Multiplies(node);
        const ValueId less = has_rate ? Plain(node.inputs[side]) : product;
        if (NodeOf(less).op != "Subtract" || (!has_rate && side > 0)) {
          continue;
        }
        const std::optional<Contraction> known = ReadFrom(NodeOf(less).inputs[1], of);
        if (!known.has_value() || known->over_last != last || !AreSame({known->vector}, keys) ||
            !IsKept(known->matrix, of, update)) {
          continue;
        }
        update.rule = "delta";
        update.keys_last = last;
        update.key = keys;
        update.value = {AsVector(NodeOf(less).inputs[0], product, update.state)};
        if (has_rate) {
          update.rate = {AsVector(node.inputs[1 - side], product, update.state)};
        }
        return true;
      }
    }
    return false;
  }
  // An operand of what `whole` computes, [rows, heads, width], with an axis more; of the state's
  // rank: as it is.
  Factor AsVector(ValueId operand, ValueId whole, ValueId state) const {
    const bool is_bare = ShapeOf(whole).rank() < ShapeOf(state).rank() &&
                         (ShapeOf(state).rank() == 3 || ShapeOf(whole).dims()[1] != 1);
    const int rank = ShapeOf(operand).has_rank() ? ShapeOf(operand).rank() : 0;
    return is_bare && rank > 0 ? Factor{operand, {rank - 1}} : Factor{operand, {}};
  }
  // Whether a matrix is the state after its decay.
  bool IsKept(ValueId matrix, MatrixShape of, const Update& update) const {
    Factors factors;
    AddFactors({matrix, {}}, of, factors);
    const auto at = std::find_if(factors.begin(), factors.end(), [&](const Factor& factor) {
      return IsState(factor.value, update.state);
    });
    if (at == factors.end()) {
      return false;
    }
    factors.erase(at);
    return factors == update.decay;
  }

  // 5. The first reader of the next state that reads it with a vector, along the keys if they are
  // known.
  void FindRead(ValueId root, MatrixShape of, Update& update) const {
    std::vector<ValueId> values = {root};
    for (size_t i = 0; i < values.size() && update.read < 0; ++i) {
      for (const int reader : readers_[static_cast<size_t>(values[i].node)]) {
        const Node& node = graph_.node(reader);
        if (node.op == "Reshape" || node.op == "Convert") {
          values.push_back({reader, 0});
          continue;
        }
        if (node.op == "Multiply") {
          values.push_back({reader, 0});  // in a ReduceSum
        }
        if (node.op != "MatMul" && node.op != "ReduceSum" && node.op != "Einsum") {
          continue;
        }
        const std::optional<Contraction> read = ReadFrom({reader, 0}, of);
        if (read.has_value() && read->matrix == root &&
            (update.rule == "sum" || update.keys_last == read->over_last) &&
            HasPattern({reader, 0}) && !DependsOn(read->vector.value, root)) {
          update.read = reader;
          update.query = read->vector;
          update.keys_last = read->over_last;
          return;
        }
      }
    }
  }
  // All extents but the first.
  bool HasPattern(ValueId id) const {
    const PartialShape& shape = ShapeOf(id);
    return shape.has_rank() && shape.rank() > 1 &&
           std::all_of(shape.dims().begin() + 1, shape.dims().end(),
                       [](int64_t extent) { return extent >= 0; });
  }
  bool DependsOn(ValueId value, ValueId on) const {
    std::vector<bool> reached(graph_.nodes.size(), false);
    reached[static_cast<size_t>(value.node)] = true;
    for (int i = value.node; i > on.node; --i) {
      for (const ValueId input : graph_.node(i).inputs) {
        if (reached[static_cast<size_t>(i)] && input.present()) {
          reached[static_cast<size_t>(input.node)] = true;
        }
      }
    }
    return reached[static_cast<size_t>(on.node)];
  }

  // Appends a node, those that it reads first: a query may come after the state that it reads.
  void Emit(int index) {
    if (is_done_[static_cast<size_t>(index)]) {
      return;
    }
    const int update = update_of_[static_cast<size_t>(index)];
    if (update >= 0) {
      is_done_[static_cast<size_t>(index)] = true;
      Append(updates_[static_cast<size_t>(update)]);
      return;
    }
    for (const ValueId input : graph_.node(index).inputs) {
      if (input.present()) {
        Emit(input.node);
      }
    }
    if (!is_done_[static_cast<size_t>(index)]) {
      is_done_[static_cast<size_t>(index)] = true;
      copy_.Keep(index);
    }
  }

  ValueId AppendOp(const std::string& name, const char* op, std::vector<ValueId> inputs) {
    Node node;
    node.op = op;
    node.name = name;
    node.inputs = std::move(inputs);
    node.outputs.resize(1);
    return AppendNode(copy_.to(), std::move(node));
  }

  ValueId Emitted(const std::string& name, const Factor& factor) {
    Emit(factor.value.node);
    ValueId value = copy_.Of(factor.value);
    if (!factor.axes.empty()) {
      value = AppendWithList(copy_.to(), "Unsqueeze", name, value, factor.axes);
    }
    // StateUpdate takes operands with two axes at least.
    const std::optional<Shape> shape = ShapeOf(factor);
    if (shape.has_value() && shape->size() < 2) {
      std::vector<int64_t> axes = {0, 1};
      axes.resize(2 - shape->size());
      value = AppendWithList(copy_.to(), "Unsqueeze", name, value, axes);
    }
    return value;
  }

  // Rows that are joined with heads, [rows * heads, ..], apart.
  ValueId Apart(const std::string& name, ValueId value, const std::optional<Shape>& shape,
                const PartialShape& state) {
    if (!value.present() || !shape.has_value() || state.rank() != 4 || shape->size() != 3 ||
        shape->front() >= 0) {
      return value;
    }
    return AppendWithList(copy_.to(), "Reshape", name, value,
                          {-1, state.dim(1), (*shape)[1], (*shape)[2]});
  }

  // The product of factors; absent without factors.
  ValueId Product(const std::string& name, const Factors& factors, const PartialShape& state,
                  bool negative = false) {
    ValueId product;
    for (const Factor& factor : factors) {
      const ValueId value = Apart(name, Emitted(name, factor), ShapeOf(factor), state);
      product = product.present() ? AppendOp(name, "Multiply", {product, value}) : value;
    }
    return negative ? AppendOp(name, "Negative", {product}) : product;
  }

  // A constant with one element along an axis (1: the last, 2: the one before), if all are equal.
  std::optional<ValueId> NarrowConstant(const std::string& name, const Tensor& value,
                                        size_t from_end) {
    Shape shape = value.shape();
    if (value.dtype() != DType::kF32 || shape.size() < from_end || value.num_elements() == 0) {
      return std::nullopt;
    }
    const int64_t extent = shape[shape.size() - from_end];
    const int64_t step = from_end == 1 ? 1 : shape.back();
    shape[shape.size() - from_end] = 1;
    Tensor narrow(DType::kF32, shape);
    for (int64_t i = 0; i < narrow.num_elements(); ++i) {
      const float* const first = value.data<float>() + i / step * step * extent + i % step;
      for (int64_t j = 1; j < extent; ++j) {
        if (first[j * step] != *first) {
          return std::nullopt;
        }
      }
      narrow.mutable_data<float>()[i] = *first;
    }
    return AppendConstant(copy_.to(), name, std::move(narrow));
  }

  // The value with one element along an axis, where its elements do not vary along it: an export
  // of transformers computes a head's decay for each element of the state.
  std::optional<ValueId> Narrow(const std::string& name, ValueId id, size_t from_end, int depth) {
    id = Plain(id);
    const Node& node = NodeOf(id);
    const std::optional<MatrixShape> last = LastTwo({id, {}});
    if (!last.has_value() || depth == 0) {
      return std::nullopt;
    }
    if ((from_end == 1 ? last->n : last->m) == 1) {
      return Emitted(name, {id, {}});
    }
    if (info_.IsKnown(id.node)) {
      return NarrowConstant(
          name, info_.constants[static_cast<size_t>(id.node)][static_cast<size_t>(id.output)],
          from_end);
    }
    if (node.op == "Broadcast" && ShapeOf(node.inputs[0]).has_rank() &&
        ShapeOf(node.inputs[0]).rank() == ShapeOf(id).rank() &&
        node.attributes.String("mode", "numpy").value_or("") != "explicit") {
      return Narrow(name, node.inputs[0], from_end, depth - 1);
    }
    const bool is_unary =
        node.op == "Exp" || node.op == "Negative" || node.op == "Sigmoid" || node.op == "SoftPlus";
    if (!is_unary && !Multiplies(node)) {
      return std::nullopt;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      const std::optional<ValueId> narrow = Narrow(name, input, from_end, depth - 1);
      if (!narrow.has_value()) {
        return std::nullopt;
      }
      inputs.push_back(*narrow);
    }
    return AppendOp(name, node.op.c_str(), std::move(inputs));
  }

  ValueId Decay(const std::string& name, const Update& update, const PartialShape& state) {
    constexpr int kDepth = 6;
    const MatrixShape of = {state.dim(state.rank() - 2), state.dims().back()};
    if (update.decay.size() == 1 && update.decay[0].axes.empty() && IsFull(update.decay[0], of)) {
      for (const size_t from_end : {1, 2}) {
        const auto narrow = Narrow(name, update.decay[0].value, from_end, kDepth);
        if (narrow.has_value()) {
          return *narrow;
        }
      }
    }
    return Product(name, update.decay, state);
  }

  void Append(const Update& update) {
    const std::string& name = graph_.node(update.root).name;
    const PartialShape& state = ShapeOf(update.state);
    const auto one = [&](const std::optional<Factor>& factor) {
      return factor.has_value() ? Product(name, {*factor}, state) : ValueId{};
    };
    Node node;
    node.op = kStateUpdateName;
    node.name = name;
    node.attributes.Set("rule", update.rule);
    node.attributes.Set("keys_last", update.keys_last);
    node.inputs.resize(kNumUpdateInputs);
    node.inputs[kUpdateState] = Emitted(name, {update.state, {}});
    node.inputs[kUpdateDecay] = Decay(name, update, state);
    node.inputs[kUpdateKey] = Product(name, update.key, state);
    node.inputs[kUpdateValue] = Product(name, update.value, state, update.negative);
    node.inputs[kUpdateQuery] = one(update.query);
    node.inputs[kUpdateErase] = one(update.erase);
    node.inputs[kUpdateWrite] = Product(name, update.write, state, update.negative_write);
    node.inputs[kUpdateRate] = Product(name, update.rate, state);
    node.outputs.resize(update.read < 0 ? 1 : 2);
    node.outputs[0].names = graph_.node(update.root).outputs[0].names;
    const ValueId made = AppendNode(copy_.to(), std::move(node));
    copy_.Replace({update.root, 0}, made);
    if (update.read < 0) {
      return;
    }
    const PartialShape& read = ShapeOf(ValueId{update.read, 0});
    ValueId value = {made.node, 1};
    Shape own(state.dims().begin(), state.dims().end() - 2);
    own.push_back(update.keys_last ? state.dim(state.rank() - 2) : state.dims().back());
    if (PartialShape(own) != read) {
      std::vector<int64_t> pattern(read.dims().begin(), read.dims().end());
      pattern[0] = -1;
      value = AppendWithList(copy_.to(), "Reshape", name, value, pattern);
    }
    copy_.Replace({update.read, 0}, value);
    is_done_[static_cast<size_t>(update.read)] = true;
  }

  const absl::Span<const CarriedValue> states_;
  const Graph& graph_;
  const GraphInfo& info_;
  std::vector<std::vector<int>> readers_;
  GraphCopy copy_;
  std::vector<Update> updates_;
  std::vector<int> update_of_;  // by node
  std::vector<bool> is_done_;   // by node
};

}  // namespace

absl::StatusOr<bool> JoinStateUpdates(Graph& graph, GraphInfo& info, const PassContext& context) {
  std::vector<CarriedValue> states;
  for (const CarriedNodes& state : context.states) {
    states.push_back({{state.parameter, 0}, graph.node(state.result).inputs[0]});
  }
  std::optional<Graph> joined = UpdateFinder(states, graph, info).Run();
  if (!joined.has_value()) {
    return false;
  }
  // The file's operators stay where an operand has a form that StateUpdate does not take.
  absl::StatusOr<GraphInfo> inferred = InferGraph(*joined, context.operators);
  if (!inferred.ok()) {
    return false;
  }
  graph = *std::move(joined);
  info = *std::move(inferred);
  return true;
}

}  // namespace beamwright::ops
