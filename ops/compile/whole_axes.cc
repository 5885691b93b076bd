// Finds nodes that do nothing, by symbolic extents: a Slice that takes a whole axis
// (CuttingEntries, TakesWhole), a ScatterUpdate that overwrites all entries of an axis
// (OverwritesAll), and a loop whose lengths are all the length of its sequence (LengthsAreWhole).
//
// Exported graphs have such nodes where the exporter wrote the general case. They must be proved
// for all requests, not for one: an extent is a number times symbols, and equal symbols are equal
// numbers in every run. What is not known for certain counts as cutting.
#include "ops/compile/whole_axes.h"

#include <algorithm>
#include <tuple>

#include "ops/compile/shape_targets.h"

namespace beamwright::ops {

std::optional<std::vector<int64_t>> CuttingEntries(const Node& node, const Extents& extents) {
  const std::optional<std::vector<Extent>>& shape = extents.of_input(node, 0).shape;
  if (node.op != "Slice" || node.inputs.size() < 4 || !shape.has_value()) {
    return std::nullopt;
  }
  const bool has_axes = node.inputs.size() == 5;
  const auto& [starts, stops, steps, axes] =
      std::tie(extents.of_input(node, 1).elements, extents.of_input(node, 2).elements,
               extents.of_input(node, 3).elements, extents.of_input(node, 4).elements);
  // Lists whose values come with a request may differ in length: an error then, not here.
  const auto is_usable = [&, count = starts.has_value() ? starts->size() : 0](const auto& list) {
    return list.has_value() && list->size() == count;
  };
  if (!is_usable(starts) || !is_usable(stops) || !is_usable(steps) ||
      (has_axes && !is_usable(axes))) {
    return std::nullopt;
  }
  const auto rank = static_cast<int64_t>(shape->size());
  std::vector<int64_t> cutting;
  for (size_t i = 0; i < starts->size(); ++i) {
    const Extent stated = has_axes ? (*axes)[i] : Extent{static_cast<int64_t>(i), {}};
    const int64_t axis = stated.number < 0 ? stated.number + rank : stated.number;
    if (!stated.is_number() || axis < 0 || axis >= rank || (*starts)[i] != Extent{0, {}} ||
        (*steps)[i] != Extent{} || (*stops)[i] != (*shape)[static_cast<size_t>(axis)]) {
      cutting.push_back(static_cast<int64_t>(i));
    }
  }
  return cutting;
}

bool TakesWhole(const Node& node, const Extents& extents) {
  const std::optional<std::vector<int64_t>> cutting = CuttingEntries(node, extents);
  return cutting.has_value() && cutting->empty();
}

bool OverwritesAll(const Node& node, const Extents& extents) {
  const ValueExtents& data = extents.of_input(node, 0);
  const auto& places = extents.of_input(node, 1);
  const auto& axis = extents.of_input(node, 3).elements;
  if (node.op != "ScatterUpdate" || !data.shape.has_value() || !places.shape.has_value() ||
      places.shape->size() != 1 || !places.elements.has_value() || !axis.has_value() ||
      axis->size() != 1 || !axis->front().is_number()) {
    return false;
  }
  const auto rank = static_cast<int64_t>(data.shape->size());
  const int64_t at = axis->front().number + (axis->front().number < 0 ? rank : 0);
  const auto count = static_cast<int64_t>(places.elements->size());
  if (at < 0 || at >= rank || (*data.shape)[static_cast<size_t>(at)] != Extent{count, {}}) {
    return false;
  }
  for (int64_t i = 0; i < count; ++i) {
    if ((*places.elements)[static_cast<size_t>(i)] != Extent{i, {}}) {
      return false;
    }
  }
  return true;
}

bool AreAll(const ValueExtents& lengths, const Extent& time) {
  return lengths.all.has_value()
             ? *lengths.all == time
             : lengths.elements.has_value() &&
                   std::all_of(lengths.elements->begin(), lengths.elements->end(),
                               [&](const Extent& length) { return length == time; });
}

bool LengthsAreWhole(const Node& node, const Extents& extents) {
  const Loop& loop = *node.loop;
  if (loop.items != Loop::Items::kHeld || loop.lengths_input < 0) {
    return false;
  }
  const ValueExtents& lengths = extents.of_input(node, static_cast<size_t>(loop.lengths_input));
  bool one_each = false;
  for (const LoopInput& rule : loop.inputs) {
    if (rule.kind == LoopInput::Kind::kIteration || rule.kind == LoopInput::Kind::kInvariant) {
      continue;
    }
    const ValueExtents& input = extents.of_input(node, static_cast<size_t>(rule.input));
    if (!input.shape.has_value() || !lengths.shape.has_value() || lengths.shape->size() != 1) {
      return false;
    }
    if (rule.kind == LoopInput::Kind::kCarried) {
      one_each = one_each || IsExtentAt(input.shape, 0, lengths.shape->front());
      continue;
    }
    const auto rank = static_cast<int64_t>(input.shape->size());
    const auto axis = static_cast<size_t>(rule.axis < 0 ? rule.axis + rank : rule.axis);
    if (axis >= input.shape->size()) {
      return false;
    }
    const Extent& time = (*input.shape)[axis];
    if (!AreAll(lengths, time)) {
      return false;
    }
    // A sequence of one step is what a step graph makes of its token; rows of tokens and of
    // states are separate symbols there, and all that a wrong number of lengths could hide is
    // an error.
    one_each = one_each || time == Extent{};
    const size_t batch = rule.drop_axis && axis == 0 ? 1 : 0;
    one_each =
        one_each || (batch != axis && IsExtentAt(input.shape, batch, lengths.shape->front()));
  }
  return one_each;
}

}  // namespace beamwright::ops
