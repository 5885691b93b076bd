#include "ops/compile/shape_targets.h"

#include <algorithm>

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
  // The -1 of the file, where it can be told.
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

}  // namespace beamwright::ops
