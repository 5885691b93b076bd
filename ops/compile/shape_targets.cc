// Finds constant targets for Reshape and Broadcast whose targets are computed from shapes. Exports
// compute targets as [batch, length, 8, 64] from Shape nodes; extents.cc knows each element of such
// a target as a number or as a product of named extents (Extent). If the target can be written as a
// constant, it no longer depends on the number of rows, and rows of several requests can be
// computed together.
//
// 1. ReshapePattern: an extent that is that of the same axis of the data becomes 0 ("copy this
//    axis"), one other unknown extent becomes -1 ("what is left"). Two unknown extents cannot be
//    written.
// 2. BroadcastTarget: an extent that the data already have becomes 1.
// 3. CopyingPattern: a -1 that gives the data's own extent becomes 0 ("copy this axis").
// 4. OpenPattern, OpenReshape: a graph that was exported with one row has a 1 in the target where
//    rows go. PlaceOfRows finds that 1, and it becomes -1, if everything else agrees; OpenReshape
//    also moves the rows to the front where the pattern moves them.
//
// Example: data [batch, length, 512], target [batch, length, 8, 64] becomes [0, 0, 8, 64].
#include "ops/compile/shape_targets.h"

#include <algorithm>
#include <tuple>

#include "ops/compile/short_lists.h"

namespace beamwright::ops {

namespace {

// Whether a -1 of the pattern already stands where the rows go: as many elements come before it as
// before the rows of the data.
bool IsOpen(const std::vector<Extent>& data, size_t axis, const std::vector<Extent>& pattern) {
  const auto open = std::find(pattern.begin(), pattern.end(), Extent{-1, {}});
  return open != pattern.end() &&
         Product(absl::MakeSpan(pattern).first(static_cast<size_t>(open - pattern.begin()))) ==
             Product(absl::MakeSpan(data).first(axis));
}

}  // namespace

bool IsExtentAt(const std::optional<std::vector<Extent>>& shape, size_t axis,
                const Extent& extent) {
  return shape.has_value() && axis < shape->size() && (*shape)[axis] == extent;
}

std::optional<std::vector<int64_t>> ReshapePattern(const ValueExtents& data,
                                                   std::vector<Extent> pattern, bool special_zero) {
  const Extent open{-1, {}};
  const auto is_zero = [](const Extent& extent) { return extent == Extent{0, {}}; };
  if (!special_zero && std::any_of(pattern.begin(), pattern.end(), is_zero)) {
    return std::nullopt;
  }
  // The -1 of the file, where it is known.
  const auto given = std::find(pattern.begin(), pattern.end(), open);
  if (given != pattern.end() && data.shape.has_value()) {
    std::vector<Extent> others = pattern;
    others.erase(others.begin() + (given - pattern.begin()));
    const std::optional<Extent> whole = Product(*data.shape);
    const std::optional<Extent> rest = Product(others);
    const std::optional<Extent> value =
        whole.has_value() && rest.has_value() ? Quotient(*whole, *rest) : std::nullopt;
    const bool known = std::none_of(others.begin(), others.end(), is_zero) &&
                       std::all_of(others.begin(), others.end(),
                                   [](const Extent& extent) { return extent.is_extent(); });
    if (value.has_value() && known) {
      *given = *value;
    }
  }
  std::vector<int64_t> constant;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i].is_number()) {
      constant.push_back(pattern[i].number);
    } else {
      constant.push_back(IsExtentAt(data.shape, i, pattern[i]) ? 0 : -1);
    }
  }
  return std::count(constant.begin(), constant.end(), -1) <= 1 ? std::optional(std::move(constant))
                                                               : std::nullopt;
}

std::optional<std::vector<int64_t>> BroadcastTarget(const ValueExtents& data,
                                                    const std::vector<Extent>& target) {
  std::vector<int64_t> constant;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i].is_number()) {
      constant.push_back(target[i].number);
      continue;
    }
    const size_t rank = data.shape.has_value() ? data.shape->size() : 0;
    if (i + rank < target.size() || !IsExtentAt(data.shape, i + rank - target.size(), target[i])) {
      return std::nullopt;
    }
    constant.push_back(1);
  }
  return constant;
}

std::optional<std::vector<int64_t>> CopyingPattern(const ValueExtents& data,
                                                   const std::vector<Extent>& pattern, Node& node) {
  const bool special_zero = node.attributes.Bool("special_zero", true).value_or(true);
  const auto open = std::find(pattern.begin(), pattern.end(), Extent{-1, {}});
  ValueExtents target;
  target.elements = pattern;
  const std::optional<std::vector<Extent>> shape = ReshapedTo(data, target, special_zero);
  const auto at = static_cast<size_t>(open - pattern.begin());
  if (open == pattern.end() || !shape.has_value() || (*shape)[at].is_number() ||
      !IsExtentAt(data.shape, at, (*shape)[at]) ||
      (!special_zero &&
       std::find(pattern.begin(), pattern.end(), Extent{0, {}}) != pattern.end())) {
    return std::nullopt;
  }
  std::vector<int64_t> constant;
  for (const Extent& extent : pattern) {
    constant.push_back(extent.number);
  }
  constant[at] = 0;
  node.attributes.Set("special_zero", true);
  return constant;
}

std::optional<std::vector<int64_t>> OpenPattern(const ValueExtents& data, const Extent& rows,
                                                const std::vector<Extent>& pattern) {
  if (!data.shape.has_value()) {
    return std::nullopt;
  }
  const auto axis = static_cast<size_t>(std::find(data.shape->begin(), data.shape->end(), rows) -
                                        data.shape->begin());
  if (axis >= pattern.size() || axis >= data.shape->size() || IsOpen(*data.shape, axis, pattern)) {
    return std::nullopt;
  }
  ValueExtents one_row = data;
  (*one_row.shape)[axis] = Extent{};
  ValueExtents target;
  target.elements = pattern;
  const std::optional<std::vector<Extent>> shape = ReshapedTo(one_row, target, true);
  const std::optional<Extent> before = Product(*one_row.shape);
  const std::optional<Extent> after = shape.has_value() ? Product(*shape) : std::nullopt;
  if (!after.has_value() || !before.has_value() || !before->is_number() || *after != *before ||
      before->number == 0 || pattern[axis] != Extent{}) {
    return std::nullopt;
  }
  std::vector<int64_t> open;
  for (const Extent& extent : *shape) {
    open.push_back(extent.number);
  }
  open[axis] = -1;
  return open;
}

namespace {

std::vector<Extent> Without(std::vector<Extent> extents, size_t axis) {
  extents.erase(extents.begin() + static_cast<int64_t>(axis));
  return extents;
}

std::optional<Extent> ProductBefore(absl::Span<const Extent> extents, size_t axis) {
  return Product(extents.subspan(0, axis));
}

// Replaces 0 and -1 of the pattern by extents, for data of this shape in which the rows count 1.
// False if they are not known.
bool Resolve(const std::vector<Extent>& one_row, bool special_zero, std::vector<Extent>& pattern) {
  std::optional<size_t> open;
  Extent others;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == Extent{0, {}} && special_zero && i < one_row.size()) {
      pattern[i] = one_row[i];
    }
    if (pattern[i] == Extent{-1, {}} && !open.has_value()) {
      open = i;
      continue;
    }
    const std::optional<Extent> product = Product(others, pattern[i]);
    if (!product.has_value() || !pattern[i].is_extent()) {
      return false;
    }
    others = *product;
  }
  const std::optional<Extent> all = Product(one_row);
  const std::optional<Extent> rest =
      all.has_value() && others.number > 0 ? Quotient(*all, others) : std::nullopt;
  if (!rest.has_value()) {
    return false;
  }
  if (open.has_value()) {
    pattern[*open] = *rest;
  }
  return open.has_value() || *rest == Extent{};
}

// Which extent of 1 stands for the rows: the only one, or the only one with as much before it as
// the rows have in the data.
std::optional<size_t> PlaceOfRows(const std::vector<Extent>& shape, size_t axis,
                                  const std::vector<Extent>& pattern) {
  std::vector<size_t> ones;
  std::vector<size_t> alike;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == Extent{}) {
      ones.push_back(i);
      if (ProductBefore(shape, axis) == ProductBefore(pattern, i)) {
        alike.push_back(i);
      }
    }
  }
  return ones.size() == 1    ? std::optional(ones.front())
         : alike.size() == 1 ? std::optional(alike.front())
                             : std::nullopt;
}

}  // namespace

std::optional<OpenedReshape> OpenReshape(const ValueExtents& data, const Extent& rows,
                                         std::vector<Extent> pattern, bool special_zero) {
  if (!data.shape.has_value() || std::count(data.shape->begin(), data.shape->end(), rows) != 1 ||
      std::find(pattern.begin(), pattern.end(), rows) != pattern.end()) {
    return std::nullopt;
  }
  OpenedReshape opened;
  opened.from = static_cast<size_t>(std::find(data.shape->begin(), data.shape->end(), rows) -
                                    data.shape->begin());
  if (opened.from < pattern.size() && pattern[opened.from] == Extent{0, {}} && special_zero) {
    return std::nullopt;  // it keeps them
  }
  std::vector<Extent> one_row = *data.shape;
  one_row[opened.from] = Extent{};
  if (!Resolve(one_row, special_zero, pattern)) {
    return std::nullopt;
  }
  const std::optional<size_t> to = PlaceOfRows(*data.shape, opened.from, pattern);
  if (!to.has_value()) {
    return std::nullopt;
  }
  opened.to = *to;
  ValueExtents in_front;
  in_front.shape = Without(*data.shape, opened.from);
  in_front.shape->insert(in_front.shape->begin(), rows);
  std::vector<Extent> target = Without(std::move(pattern), opened.to);
  target.insert(target.begin(), rows);
  std::optional<std::vector<int64_t>> constant =
      ReshapePattern(in_front, std::move(target), /*special_zero=*/true);
  if (!constant.has_value()) {
    return std::nullopt;
  }
  opened.pattern = *std::move(constant);
  return opened;
}

// Finds nodes that do nothing, by symbolic extents: a Slice that takes a whole axis
// (CuttingEntries, TakesWhole), a ScatterUpdate that overwrites all entries of an axis
// (OverwritesAll), and a loop whose lengths are all the length of its sequence (LengthsAreWhole).
//
// Exported graphs have such nodes where the exporter wrote the general case. They must be proved
// for all requests, not for one: an extent is a number times symbols, and equal symbols are equal
// numbers in every run. What is not known for certain counts as cutting.

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
