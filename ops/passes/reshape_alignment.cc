// AlignReshapes: a Reshape whose computed target leaves two extents open gets constant targets.
//
//   before: Reshape([2 * rows, 1, time] -> [rows, 2, 1, time], computed)     heads of attention
//   after:  axes of 1 in front of it and behind it, and a Reshape whose pattern is constant
//
// A pattern can leave one extent open and copy others, but only from the same axis; so both shapes
// are made equally long by axes of 1. It comes last: the other passes look for the Reshape as the
// file has it.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/compile/graph_copy.h"
#include "ops/compile/shape_targets.h"
#include "ops/compile/short_lists.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

// Two shapes made equally long: from behind, each extent meets its equal, or a 1 of
// the other shape or one that was put in; where neither goes, the shorter rest is filled up.
struct Alignment {
  std::vector<Extent> before;
  std::vector<Extent> after;
  std::vector<int64_t> into_before;  // places of those that were put in
  std::vector<int64_t> into_after;
};

Alignment Align(absl::Span<const Extent> before, absl::Span<const Extent> after) {
  struct Column {
    std::optional<Extent> before;
    std::optional<Extent> after;
  };
  std::vector<Column> columns;  // from behind
  const auto take = [&](bool from_before, bool from_after) {
    columns.emplace_back();
    if (from_before) {
      columns.back().before = before.back();
      before.remove_suffix(1);
    }
    if (from_after) {
      columns.back().after = after.back();
      after.remove_suffix(1);
    }
  };
  while (!before.empty() && !after.empty()) {
    const bool equal = before.back() == after.back();
    if (!equal && before.back() != Extent{} && after.back() != Extent{}) {
      break;
    }
    take(equal || after.back() != Extent{}, equal || after.back() == Extent{});
  }
  while (before.size() != after.size()) {
    take(before.size() > after.size(), after.size() > before.size());
  }
  while (!before.empty()) {
    take(true, true);
  }
  std::reverse(columns.begin(), columns.end());
  Alignment aligned;
  for (const Column& column : columns) {
    const auto place = static_cast<int64_t>(aligned.before.size());
    if (!column.before.has_value()) {
      aligned.into_before.push_back(place);
    }
    if (!column.after.has_value()) {
      aligned.into_after.push_back(place);
    }
    aligned.before.push_back(column.before.value_or(Extent{}));
    aligned.after.push_back(column.after.value_or(Extent{}));
  }
  return aligned;
}

struct AlignedReshape {
  std::vector<int64_t> added;    // axes of 1 that the data get first; empty: none
  std::vector<int64_t> pattern;  // with special_zero
  std::vector<int64_t> dropped;  // axes of 1 that go afterwards; empty: none
};

// Nothing if there is no such pattern, or none is needed.
std::optional<AlignedReshape> AlignedTo(const ValueExtents& data, const ValueExtents& target,
                                        bool special_zero) {
  const std::optional<std::vector<Extent>> shape = ReshapedTo(data, target, special_zero);
  if (!shape.has_value() || !data.shape.has_value() || Product(*shape) != Product(*data.shape) ||
      std::find(shape->begin(), shape->end(), Extent{0, {}}) != shape->end()) {
    return std::nullopt;
  }
  Alignment aligned = Align(*data.shape, *shape);
  ValueExtents widened = data;
  widened.shape = std::move(aligned.before);
  std::optional<std::vector<int64_t>> pattern =
      ReshapePattern(widened, std::move(aligned.after), /*special_zero=*/true);
  if (!pattern.has_value() || (aligned.into_before.empty() && aligned.into_after.empty())) {
    return std::nullopt;
  }
  return AlignedReshape{std::move(aligned.into_before), *std::move(pattern),
                        std::move(aligned.into_after)};
}

// Appends what stands for a Reshape of `data`.
ValueId AppendAligned(const Node& reshape, const AlignedReshape& aligned, ValueId data, Graph& to) {
  if (!aligned.added.empty()) {
    data = AppendWithList(to, "Unsqueeze", reshape.name, data, aligned.added);
  }
  data = AppendWithList(to, "Reshape", reshape.name, data, aligned.pattern);
  to.node(data.node).attributes.Set("special_zero", true);
  if (!aligned.dropped.empty()) {
    data = AppendWithList(to, "Squeeze", reshape.name, data, aligned.dropped);
  }
  to.node(data.node).outputs[0] = reshape.outputs[0];
  return data;
}

}  // namespace

absl::StatusOr<bool> AlignReshapes(Graph& graph, GraphInfo& info, const PassContext& context) {
  const Extents& extents = context.shapes->extents;
  GraphCopy copy(graph);
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<int>(i);
    const Node& node = graph.nodes[i];
    const bool is_open =
        node.op == "Reshape" && !info.IsKnown(index) && !info.IsKnown(node.inputs[1].node);
    const std::optional<AlignedReshape> aligned =
        is_open ? AlignedTo(extents.of(node.inputs[0]), extents.of(node.inputs[1]),
                            node.attributes.Bool("special_zero", true).value_or(true))
                : std::nullopt;
    if (aligned.has_value()) {
      copy.Replace({index, 0}, AppendAligned(node, *aligned, copy.Of(node.inputs[0]), copy.to()));
      any = true;
    } else {
      copy.Keep(index);
    }
  }
  return any ? TakeChanged(DropUnneeded(std::move(copy).Finish()), graph, info, context) : false;
}

}  // namespace beamwright::ops
