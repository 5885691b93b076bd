// DropNeedlessRepeat: broadcast elimination of a value that a step repeats for each of its rows and
// then only adds to, or multiplies with, values that have these rows. For a search.
//
//   before: Add(words [rows, 1, width], Gather(table, Tile(place, rows)))     Whisper, TrOCR
//   after:  Add(words, Gather(table, place))                                  it broadcasts
//
// The repeat hides that the value is one for all rows of a request, so that rows of several
// requests could not be stepped together. One repeat goes at a time: another may be what covers
// this one.
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ops/compile/graph_copy.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// A value in which some axes repeat one element: `is_repeated` by axis.
struct RepeatedValue {
  ValueId value;
  std::vector<bool> is_repeated;
};

class NeedlessRepeats {
 public:
  NeedlessRepeats(const Graph& graph, const GraphInfo& info, const Extents& extents)
      : graph_(graph), info_(info), extents_(extents), readers_(ReadersByNode(graph)) {}

  // The nodes between a repeat and its last readers, whose shapes lose the repeated extents;
  // nothing if node `index` is no repeat, or a reader needs it.
  std::optional<std::vector<int>> Behind(int index) const {
    std::optional<RepeatedValue> repeat = RepeatBy(index);
    if (!repeat.has_value()) {
      return std::nullopt;
    }
    std::vector<int> behind;
    std::vector<RepeatedValue> open = {*std::move(repeat)};
    while (!open.empty()) {
      const RepeatedValue next = std::move(open.back());
      open.pop_back();
      const std::vector<int>& readers = readers_[static_cast<size_t>(next.value.node)];
      if (readers.empty() || behind.size() > kMostBehind) {
        return std::nullopt;
      }
      for (const int reader : readers) {
        if (IsCovered(reader, next)) {
          continue;
        }
        std::optional<RepeatedValue> passed = PassedOn(reader, next);
        if (!passed.has_value()) {
          return std::nullopt;
        }
        behind.push_back(reader);
        open.push_back(*std::move(passed));
      }
    }
    return behind;
  }

 private:
  static constexpr size_t kMostBehind = 16;

  const std::optional<std::vector<Extent>>& Shape(ValueId value) const {
    return extents_.of(value).shape;
  }

  // The output of a Tile or Broadcast that repeats axes of extent 1, and axes that it adds in
  // front.
  std::optional<RepeatedValue> RepeatBy(int index) const {
    const Node& node = graph_.node(index);
    const bool repeats =
        node.op == "Tile" ||
        (node.op == "Broadcast" &&
         node.attributes.String("mode", "numpy").value_or("explicit") != "explicit");
    if (!repeats || info_.IsKnown(index)) {
      return std::nullopt;
    }
    const auto& before = Shape(node.inputs[0]);
    const auto& after = Shape({index, 0});
    if (!before.has_value() || !after.has_value() || before->size() > after->size()) {
      return std::nullopt;
    }
    RepeatedValue repeat{{index, 0}, std::vector<bool>(after->size(), false)};
    for (size_t axis = 0; axis < after->size(); ++axis) {
      const Extent own = AlignedAt(*before, after->size(), axis);
      repeat.is_repeated[axis] = own != (*after)[axis];
      if (repeat.is_repeated[axis] && own != Extent{1, {}}) {
        return std::nullopt;
      }
    }
    return absl::c_linear_search(repeat.is_repeated, true) ? std::optional(std::move(repeat))
                                                           : std::nullopt;
  }

  // Whether `reader` is a sum or product in which another input has the extents that are repeated.
  bool IsCovered(int reader, const RepeatedValue& repeat) const {
    const Node& node = graph_.node(reader);
    const bool broadcasts =
        (node.op == "Add" || node.op == "Subtract" || node.op == "Multiply") &&
        node.attributes.String("auto_broadcast", "numpy").value_or("") == "numpy";
    const auto& shape = Shape(repeat.value);
    if (!broadcasts || node.inputs.size() != 2 || !shape.has_value()) {
      return false;
    }
    const ValueId other = node.inputs[node.inputs[0] == repeat.value ? 1 : 0];
    const auto& covering = Shape(other);
    if (other == repeat.value || !covering.has_value() || covering->size() < shape->size()) {
      return false;
    }
    const size_t ahead = covering->size() - shape->size();
    for (size_t axis = 0; axis < shape->size(); ++axis) {
      if (repeat.is_repeated[axis] && (*covering)[ahead + axis] != (*shape)[axis]) {
        return false;
      }
    }
    return true;
  }

  // TrOCR's table of positions begins two rows later.
  bool AddsNumber(const Node& node, const RepeatedValue& repeat) const {
    if (node.op != "Add" || node.inputs.size() != 2) {
      return false;
    }
    const ValueId other = node.inputs[node.inputs[0] == repeat.value ? 1 : 0];
    const Tensor& known =
        info_.constants[static_cast<size_t>(other.node)][static_cast<size_t>(other.output)];
    return known.has_value() && known.num_elements() == 1 &&
           known.rank() <= static_cast<int>(repeat.is_repeated.size());
  }

  // What a reader makes of the value element by element, or picks by it; nothing: something else.
  std::optional<RepeatedValue> PassedOn(int reader, const RepeatedValue& repeat) const {
    const Node& node = graph_.node(reader);
    if (node.op == "Convert" || AddsNumber(node, repeat)) {
      return RepeatedValue{{reader, 0}, repeat.is_repeated};
    }
    const auto& data = node.op == "Gather" ? Shape(node.inputs[0]) : std::nullopt;
    if (!data.has_value() || node.inputs.size() != 3 || node.inputs[0] == repeat.value ||
        node.inputs[1] != repeat.value || node.inputs[2] == repeat.value ||
        node.attributes.Int("batch_dims", 0).value_or(1) != 0) {
      return std::nullopt;
    }
    const Tensor& known = info_.constants[static_cast<size_t>(node.inputs[2].node)]
                                         [static_cast<size_t>(node.inputs[2].output)];
    const auto axes = known.has_value() ? ToInt64(known).value_or(std::vector<int64_t>())
                                        : std::vector<int64_t>();
    const auto rank = static_cast<int64_t>(data->size());
    const int64_t axis = axes.size() != 1 ? -1 : axes[0] < 0 ? axes[0] + rank : axes[0];
    if (axis < 0 || axis >= rank) {
      return std::nullopt;
    }
    std::vector<bool> is_repeated(static_cast<size_t>(axis), false);
    is_repeated.insert(is_repeated.end(), repeat.is_repeated.begin(), repeat.is_repeated.end());
    is_repeated.resize(is_repeated.size() + static_cast<size_t>(rank - axis - 1), false);
    return RepeatedValue{{reader, 0}, std::move(is_repeated)};
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const Extents& extents_;
  const std::vector<std::vector<int>> readers_;
};

// What node `index` repeats, with as many axes as its output has.
ValueId WithRank(const Graph& graph, const Extents& extents, int index, GraphCopy& copy) {
  const Node& node = graph.node(index);
  const ValueId value = copy.Of(node.inputs[0]);
  std::vector<int64_t> added(extents.of({index, 0}).shape->size() -
                             extents.of(node.inputs[0]).shape->size());
  std::iota(added.begin(), added.end(), 0);
  return added.empty() ? value : AppendWithList(copy.to(), "Unsqueeze", node.name, value, added);
}

}  // namespace

absl::StatusOr<bool> DropNeedlessRepeat(Graph& graph, GraphInfo& info, const PassContext& context) {
  const Extents& extents = context.shapes->extents;
  if (context.shapes->rows == nullptr || absl::c_none_of(graph.nodes, [](const Node& node) {
        return node.op == "Tile" || node.op == "Broadcast";
      })) {
    return false;
  }
  const NeedlessRepeats finder(graph, info, extents);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int index = static_cast<int>(i);
    const std::optional<std::vector<int>> behind = finder.Behind(index);
    if (!behind.has_value()) {
      continue;
    }
    // Another repeat may be what covers this one: it stays until extents are found anew.
    GraphCopy copy(graph);
    for (size_t j = 0; j < graph.nodes.size(); ++j) {
      const int kept = static_cast<int>(j);
      if (kept == index) {
        copy.Replace({index, 0}, WithRank(graph, extents, index, copy));
        continue;
      }
      Node node = copy.Moved(kept);
      if (absl::c_linear_search(*behind, kept)) {
        node.outputs[0].shape = PartialShape();
      }
      copy.Keep(kept, std::move(node));
    }
    return TakeChanged(std::move(copy).Finish(), graph, info, context);
  }
  return false;
}

}  // namespace beamwright::ops
