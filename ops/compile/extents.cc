// One sweep over the nodes, in their order, so that the inputs of a node are known before it. For
// each output (Run, Complete):
//
// 1. The shape as far as it follows from elements: the target of a Reshape, the lists of a Slice
//    (shapes_by_elements.cc). For a Loop, what its body gives (FollowLoop).
// 2. Numbers that inference knows, or knows once it sees the numbers of step 1 (InferredAgain).
// 3. Symbols that the operator hands on: each symbol of an input takes the place of the number of
//    rows in Operator::rows (HandOn). Extents that are still open get new symbols.
// 4. Elements of short lists of integers: computed, or by rules of arithmetic (short_lists.cc).
// 5. Values that are one number everywhere, and bounds of elements (filled_values.cc).
//
// [2 * rows, time] through Reshape to [rows, 2, time], by example: step 4 of ShapeOf has the
// elements {2 * rows, time}; step 4 of Divide by 2 has rows; step 1 of the Reshape has its shape.
#include "ops/compile/extents.h"

#include <algorithm>

#include "ops/compile/filled_values.h"
#include "ops/compile/short_lists.h"

namespace beamwright::ops {

namespace {

using Kind = RowInfo::Kind;

// Symbols that are followed through one node; a node with more is no shape arithmetic.
constexpr size_t kMostSymbols = 16;
// Of what the inputs of one node may be taken for.
constexpr size_t kMostChoices = 64;

std::optional<std::vector<Extent>> Declared(const PartialShape& shape, Symbols& symbols) {
  if (!shape.has_rank()) {
    return std::nullopt;
  }
  std::vector<Extent> dims;
  for (const int64_t dim : shape.dims()) {
    dims.push_back(dim == PartialShape::kDynamic ? symbols.New() : Extent{dim, {}});
  }
  return dims;
}

}  // namespace

void ShareExtent(int64_t axis, int64_t number, Node& parameter) {
  const PartialShape& shape = parameter.outputs[0].shape;
  if (shape.has_rank() && axis > 0 && axis < shape.rank() &&
      shape.dim(static_cast<int>(axis)) == PartialShape::kDynamic) {
    parameter.attributes.Set(kSharedExtent, std::vector<int64_t>{axis, number});
  }
}

bool TakesEveryElement(const LoopInput& rule) {
  const bool forward = rule.start == 0 && rule.end == -1 && rule.stride == 1;
  const bool backward = rule.start == -1 && rule.end == 0 && rule.stride == -1;
  return rule.kind == LoopInput::Kind::kSliced && rule.part_size == 1 && (forward || backward);
}

class ExtentsFinder {
 public:
  ExtentsFinder(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                Symbols& symbols)
      : graph_(graph), info_(info), operators_(operators), symbols_(symbols) {}

  Extents Run(const std::vector<ValueExtents>& parameters) {
    found_.values_.resize(graph_.nodes.size());
    found_.bodies_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      found_.values_[i].resize(graph_.nodes[i].outputs.size());
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      found_.values_[static_cast<size_t>(graph_.parameters[i])][0] = parameters[i];
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::vector<ValueExtents>& outputs = found_.values_[i];
      // 1.
      if (node.op == "Loop") {
        FollowLoop(static_cast<int>(i), outputs);
      } else if (node.op != "Parameter" && node.op != "Constant" && outputs.size() == 1) {
        outputs[0].shape = ShapeByElements(node, found_, symbols_);
      } else if (node.op == "DynamicQuantizeLinear") {
        outputs[0].shape = found_.of_input(node, 0).shape;
      } else if (node.op == "MaxPool") {  // with the places of its results
        outputs[0].shape = ShapeByElements(node, found_, symbols_);
      }
      for (size_t output = 0; output < outputs.size(); ++output) {
        Complete(static_cast<int>(i), output, outputs[output]);
      }
    }
    return std::move(found_);
  }

 private:
  // Nodes that one output follows from by the operator alone.
  static bool MayKnowMore(const Node& node) {
    return node.op != "Parameter" && node.op != "Constant" && node.op != "Result" &&
           node.loop == nullptr && node.branches == nullptr && node.outputs.size() == 1;
  }

  // The output's shape as the operator infers it from what extents know of the inputs. So a deep
  // graph whose shapes hang on each other layer by layer is known in one sweep.
  PartialShape InferredAgain(const Node& node, const KnownInputs& inputs) const {
    const PartialShape& shape = node.outputs[0].shape;
    const absl::StatusOr<std::vector<ValueInfo>> again =
        InferNodeOutputs(node, inputs.infos(), operators_);
    return again.ok() && again->front().shape.has_rank() ? again->front().shape : shape;
  }

  // Fills in what is not known yet: numbers that inference found, symbols that operators hand on,
  // and new symbols.
  void Complete(int index, size_t output, ValueExtents& value) {
    const Node& node = graph_.node(index);
    const ValueInfo& info = node.outputs[output];
    const Tensor& known = info_.constants[static_cast<size_t>(index)][output];
    const KnownInputs inputs(graph_, node, found_, info_);
    const bool is_news = !known.has_value() && inputs.is_news() && MayKnowMore(node);
    // 2.
    std::optional<std::vector<Extent>> shape =
        Declared(is_news ? InferredAgain(node, inputs) : info.shape, symbols_);
    if (shape.has_value() && value.shape.has_value() && shape->size() == value.shape->size()) {
      for (size_t axis = 0; axis < shape->size(); ++axis) {
        if (!(*shape)[axis].is_number()) {
          (*shape)[axis] = (*value.shape)[axis];
        }
      }
    } else if (!shape.has_value()) {
      shape = value.shape;
    } else if (node.op != "Parameter") {
      // 3.
      HandOn(node, inputs.infos(), *shape);
    }
    value.shape = std::move(shape);
    // 4.
    const Tensor computed = is_news ? inputs.Compute(operators_, value) : known;
    if (computed.has_value()) {
      FindKnown(computed, value);
    } else if (node.op != "Loop" && node.op != "Parameter" && node.outputs.size() == 1) {
      FindElements(node, found_, info_, operators_, symbols_, value);
    }
    if (IsShortList(info.dtype, value) && !value.elements.has_value()) {
      value.elements.emplace();
      const size_t count =
          value.shape->empty() ? 1 : static_cast<size_t>(value.shape->front().number);
      for (size_t i = 0; i < count; ++i) {
        value.elements->push_back(symbols_.NewInteger());
      }
    }
    if (value.elements.has_value() && value.elements->size() == 1) {
      value.all = value.elements->front();
    }
    // 5.
    if (node.op != "Parameter" && node.outputs.size() == 1 && node.loop == nullptr &&
        node.branches == nullptr) {
      FindFill(node, computed, found_, operators_, symbols_, value);
    }
  }

  // Replaces extents of `shape`, an output of `node`, by what they are of its inputs' symbols.
  void HandOn(const Node& node, absl::Span<const InputInfo> inputs, std::vector<Extent>& shape) {
    const Operator* op = operators_.Find(node.op);
    if (op == nullptr || op->rows == nullptr) {
      return;
    }
    std::vector<std::vector<int>> tried;
    for (const ValueId id : node.inputs) {
      if (!id.present() || !found_.of(id).shape.has_value()) {
        continue;
      }
      for (const Extent& extent : *found_.of(id).shape) {
        if (!extent.is_number() && tried.size() < kMostSymbols &&
            std::find(tried.begin(), tried.end(), extent.symbols) == tried.end()) {
          tried.push_back(extent.symbols);
          HandOnSymbols(node, inputs, *op, extent.symbols, shape);
        }
      }
    }
  }

  // Hands on one product of symbols, as if it were the number of rows. What else there is of shapes
  // stands as it is: a rule holds for whatever the number of rows may be besides. So where the
  // symbols stand on several axes (queries and keys of attention over itself), each of an input may
  // be taken for rows, and the others, or all of that input, for extents of which nothing is known.
  void HandOnSymbols(const Node& node, absl::Span<const InputInfo> inputs, const Operator& op,
                     const std::vector<int>& symbols, std::vector<Extent>& shape) {
    std::vector<std::vector<RowInfo>> places;  // by input: what it may be taken for
    size_t choices = 1;
    for (const ValueId id : node.inputs) {
      std::vector<RowInfo>& mine = places.emplace_back();
      const auto& dims = id.present() ? found_.of(id).shape : std::nullopt;
      for (size_t axis = 0; dims.has_value() && axis < dims->size(); ++axis) {
        if ((*dims)[axis].symbols == symbols) {
          mine.push_back({Kind::kRows, static_cast<int>(axis), (*dims)[axis].number});
        }
      }
      mine.push_back({Kind::kFixed});
      choices = std::min(choices * mine.size(), kMostChoices + 1);
    }
    choices = choices > kMostChoices ? 1 : choices;
    for (size_t choice = 0; choice < choices; ++choice) {
      std::vector<RowInfo> rows;
      size_t left = choice;
      for (const std::vector<RowInfo>& mine : places) {
        rows.push_back(mine[left % mine.size()]);
        left /= mine.size();
      }
      const RowInfo result = op.rows(node, rows, inputs);
      if (result.kind == Kind::kRows && static_cast<size_t>(result.axis) < shape.size() &&
          !shape[static_cast<size_t>(result.axis)].is_number()) {
        shape[static_cast<size_t>(result.axis)] = Extent{result.factor, symbols};
      }
    }
  }

  // Whether an iteration whose states have the shapes that were assumed hands on states of these
  // shapes: then all iterations do.
  bool StatesKeepShapes(int index, const std::vector<ValueExtents>& assumed) const {
    const Loop& loop = *graph_.node(index).loop;
    const Extents& body = *found_.bodies_[static_cast<size_t>(index)];
    return std::all_of(loop.inputs.begin(), loop.inputs.end(), [&](const LoopInput& rule) {
      if (rule.kind != LoopInput::Kind::kCarried) {
        return true;
      }
      const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(rule.back_edge)]);
      const auto& shape = assumed[static_cast<size_t>(rule.body_parameter)].shape;
      return shape.has_value() && body.of(result.inputs[0]).shape == shape;
    });
  }

  // What a loop's body sees of its inputs, and what its outputs are. Symbols that the body made
  // hold for one iteration; none of them leaves it.
  //
  // 1. Each input becomes a Parameter of the body: sliced along an axis, whose extent is the number
  //    of iterations if every element is taken, or as it is. A state is assumed to keep its shape.
  // 2. The body is swept. If a state turns out to change its shape, it is swept again without what
  //    was assumed.
  // 3. Each result becomes an output: the last value, or parts joined along an axis.
  void FollowLoop(int index, std::vector<ValueExtents>& outputs) {
    const Node& node = graph_.node(index);
    const Loop& loop = *node.loop;
    if (loop.items == Loop::Items::kApart || info_.bodies[static_cast<size_t>(index)].empty()) {
      return;
    }
    std::vector<ValueExtents> parameters(loop.body.parameters.size());
    std::optional<Extent> count;
    // 1.
    for (const LoopInput& rule : loop.inputs) {
      if (rule.input < 0) {
        continue;
      }
      const ValueExtents& outside = found_.of_input(node, static_cast<size_t>(rule.input));
      ValueExtents& inside = parameters[static_cast<size_t>(rule.body_parameter)];
      if (rule.kind == LoopInput::Kind::kInvariant) {
        inside = outside;
      } else if (rule.kind == LoopInput::Kind::kCarried) {
        inside.shape = outside.shape;  // if they keep it: below
      } else if (outside.shape.has_value()) {
        const std::optional<size_t> axis = AxisOf(rule.axis, outside.shape->size());
        if (!axis.has_value()) {
          continue;
        }
        inside.shape = outside.shape;
        if (TakesEveryElement(rule)) {
          count = (*outside.shape)[*axis];
        }
        if (rule.drop_axis) {
          inside.shape->erase(inside.shape->begin() + static_cast<int64_t>(*axis));
        } else {
          (*inside.shape)[*axis] = Extent{rule.part_size, {}};
        }
      }
    }
    const bool counted = loop.trip_count_input < 0 && loop.condition_input < 0 &&
                         loop.condition_result < 0 && count.has_value();
    // 2.
    const int before = symbols_.num_extents();
    const auto follow = [&] {
      found_.bodies_[static_cast<size_t>(index)] = std::make_unique<Extents>(
          Extents::Find(loop.body, *info_.bodies[static_cast<size_t>(index)][0], operators_,
                        symbols_, parameters));
    };
    follow();
    if (loop.states_may_change_shape && !StatesKeepShapes(index, parameters)) {
      for (const LoopInput& rule : loop.inputs) {
        if (rule.kind == LoopInput::Kind::kCarried) {
          parameters[static_cast<size_t>(rule.body_parameter)].shape = std::nullopt;
        }
      }
      follow();
    }
    // 3.
    for (const LoopOutput& rule : loop.outputs) {
      const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(rule.body_result)]);
      std::optional<std::vector<Extent>> shape =
          found_.bodies_[static_cast<size_t>(index)]->of(result.inputs[0]).shape;
      if (!shape.has_value()) {
        continue;
      }
      for (Extent& extent : *shape) {
        if (!extent.symbols.empty() && extent.symbols.back() >= before) {
          extent = symbols_.New();
        }
      }
      if (rule.kind != LoopOutput::Kind::kLastValue) {
        const bool stacked = rule.kind == LoopOutput::Kind::kStacked || shape->empty();
        const std::optional<size_t> axis = AxisOf(rule.axis, shape->size() + (stacked ? 1 : 0));
        if (!axis.has_value()) {
          continue;
        }
        if (stacked) {
          shape->insert(shape->begin() + static_cast<int64_t>(*axis), Extent{});
        }
        Extent& joined = (*shape)[*axis];
        const std::optional<Extent> all =
            counted && joined.is_number() ? Product(*count, joined) : std::nullopt;
        joined = all.value_or(symbols_.New());
      }
      outputs[static_cast<size_t>(rule.output)].shape = std::move(shape);
    }
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  Symbols& symbols_;
  Extents found_;
};

const ValueExtents& Extents::of_input(const Node& node, size_t port) const {
  static const ValueExtents absent;
  return port < node.inputs.size() && node.inputs[port].present() ? of(node.inputs[port]) : absent;
}

Extents Extents::Find(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                      Symbols& symbols, const std::vector<ValueExtents>& parameters) {
  return ExtentsFinder(graph, info, operators, symbols).Run(parameters);
}

std::vector<ValueExtents> ParametersWithRows(const Graph& graph, const std::vector<int>& row_axes,
                                             const Extent& rows, Symbols& symbols) {
  std::vector<ValueExtents> parameters(graph.parameters.size());
  std::map<int64_t, Extent> shared;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int axis = row_axes[i];
    auto& shape = parameters[i].shape;
    const Node& node = graph.node(graph.parameters[i]);
    shape = Declared(node.outputs[0].shape, symbols);
    const auto shares = node.attributes.Ints(kSharedExtent, {}).value_or(std::vector<int64_t>());
    if (shares.size() == 2 && shape.has_value() && static_cast<size_t>(shares[0]) < shape->size()) {
      Extent& extent = (*shape)[static_cast<size_t>(shares[0])];
      extent = extent.is_number() ? extent : shared.try_emplace(shares[1], extent).first->second;
    }
    if (axis >= 0 && shape.has_value() && static_cast<size_t>(axis) < shape->size() &&
        !(*shape)[static_cast<size_t>(axis)].is_number()) {
      (*shape)[static_cast<size_t>(axis)] = rows;
    }
  }
  return parameters;
}

}  // namespace beamwright::ops
