// Refines what is known about rows by what is known about extents. The operators' rules (RowInfo)
// see only ranks and constants; here extents are symbols (ValueExtents), of which one is the number
// of rows. A symbol that occurs in a value that is fixed, or on another axis than the rows', does
// not depend on the rows (Note, IsIndependent).
//
// LookCloser: a value that the rules call mixed is fixed if all its elements are independent
// extents; Broadcast and Tile with a target that names the rows make rows of fixed data, and keep
// the rows of data that have them.
#include <algorithm>
#include <optional>

#include "ops/compile/row_follower.h"

namespace beamwright::ops {
namespace {

using Kind = RowInfo::Kind;

constexpr RowInfo kSameForAll{Kind::kFixed};

}  // namespace

void RowExtents::Note(const ValueExtents& value, const RowInfo& info) {
  if (!value.shape.has_value() || (info.kind != Kind::kFixed && info.kind != Kind::kRows)) {
    return;
  }
  for (size_t axis = 0; axis < value.shape->size(); ++axis) {
    if (info.kind == Kind::kRows && static_cast<size_t>(info.axis) == axis) {
      continue;
    }
    for (const int symbol : (*value.shape)[axis].symbols) {
      if (symbol >= 0 && symbol != row_symbol_) {
        independent_.insert(symbol);
      }
    }
  }
}

bool RowExtents::IsIndependent(const Extent& extent) const {
  // A sum is as good as what it is made of.
  return std::all_of(extent.symbols.begin(), extent.symbols.end(), [this](int symbol) {
    const std::vector<int> parts = symbols_->Parts(symbol);
    return independent_.count(symbol) > 0 ||
           std::all_of(parts.begin(), parts.end(),
                       [this](int part) { return independent_.count(part) > 0; });
  });
}

bool RowExtents::HasRows(const Extent& extent) const {
  return std::find(extent.symbols.begin(), extent.symbols.end(), row_symbol_) !=
         extent.symbols.end();
}

RowInfo RowExtents::LookCloser(const Node& node, absl::Span<const RowInfo> rows,
                               absl::Span<const ValueExtents* const> inputs,
                               const ValueExtents& output, const RowInfo& found) const {
  if (found.kind != Kind::kExtent && found.kind != Kind::kMixed) {
    return found;
  }
  const auto is_independent = [this](const Extent& extent) { return IsIndependent(extent); };
  if (output.elements.has_value() &&
      std::all_of(output.elements->begin(), output.elements->end(), is_independent)) {
    return kSameForAll;
  }
  if (inputs.empty() || inputs[0] == nullptr || !inputs[0]->shape.has_value()) {
    return found;
  }
  // Rows that all hold one number: so does what is picked from them, however many there are.
  if ((node.op == "ReduceMax" || node.op == "ReduceMin") && rows[0].kind == Kind::kRows &&
      inputs[0]->all.has_value() && IsIndependent(*inputs[0]->all) && output.shape.has_value() &&
      std::all_of(output.shape->begin(), output.shape->end(), is_independent)) {
    return kSameForAll;
  }
  const bool reshapes = node.op == "Reshape" && rows[0].kind == Kind::kRows;
  if ((node.op != "Broadcast" && node.op != "Tile" && !reshapes) || inputs.size() != 2 ||
      inputs[1] == nullptr || !inputs[1]->elements.has_value() ||
      (rows[0].kind != Kind::kFixed && rows[0].kind != Kind::kRows) ||
      (rows[1].kind != Kind::kFixed && rows[1].kind != Kind::kExtent)) {
    return found;
  }
  if (reshapes) {
    return Reshape(node, rows[0], *inputs[0]->shape, *inputs[1]->elements, found);
  }
  return node.op == "Broadcast" ? Broadcast(node, rows, *inputs[0], *inputs[1]->elements, found)
                                : Tile(rows, *inputs[0], *inputs[1]->elements, found);
}

// Data with rows keep them on their axis; data without rows are repeated for each row if the target
// names their number and the data have 1 there.
RowInfo RowExtents::Broadcast(const Node& node, absl::Span<const RowInfo> rows,
                              const ValueExtents& data, const std::vector<Extent>& target,
                              const RowInfo& found) const {
  const std::string mode = node.attributes.String("mode", "numpy").value_or("");
  if (mode == "explicit" || (mode == "numpy" && target.size() < data.shape->size())) {
    return found;
  }
  const size_t rank = std::max(target.size(), data.shape->size());
  std::optional<RowInfo> result;
  for (size_t axis = 0; axis < rank; ++axis) {
    const Extent from = AlignedAt(*data.shape, rank, axis);
    const Extent to = AlignedAt(target, rank, axis);
    const bool widens = from == Extent{};
    if (!widens && from != to && (to != Extent{} || mode == "numpy")) {
      return found;
    }
    const Extent& extent = widens ? to : from;
    if (!HasRows(extent)) {
      if (!IsIndependent(extent)) {
        return found;
      }
      continue;
    }
    const bool is_own = rows[0].kind == Kind::kRows &&
                        axis == static_cast<size_t>(rows[0].axis) + rank - data.shape->size();
    if (result.has_value() || extent.symbols.size() != 1 ||
        (rows[0].kind == Kind::kRows ? !is_own || widens : !widens)) {
      return found;
    }
    result = RowInfo{Kind::kRows, static_cast<int>(axis), is_own ? rows[0].factor : extent.number};
  }
  return result.value_or(found);
}

// Rows of axes [.., factor * rows, ..] stay apart on the axis of the target that names their
// number, if as many elements come before it: then one row after another fills the axes from there
// on.
RowInfo RowExtents::Reshape(const Node& node, const RowInfo& rows, const std::vector<Extent>& data,
                            const std::vector<Extent>& target, const RowInfo& found) const {
  const auto axis = static_cast<size_t>(rows.axis);
  const bool copies = node.attributes.Bool("special_zero", true).value_or(true);
  std::optional<RowInfo> result;
  std::optional<Extent> before = Extent{};  // of the target, up to the rows
  for (size_t i = 0; i < target.size(); ++i) {
    const bool is_open = target[i] == Extent{-1, {}};
    if (target[i] == Extent{0, {}} && (!copies || i >= data.size())) {
      return found;
    }
    const Extent& extent = target[i] == Extent{0, {}} ? data[i] : target[i];
    if (HasRows(extent)) {
      if (result.has_value() || extent.symbols.size() != 1 || extent.number < 1 ||
          axis >= data.size() || !before.has_value() ||
          before != Product(absl::MakeSpan(data).first(axis))) {
        return found;
      }
      result = RowInfo{Kind::kRows, static_cast<int>(i), extent.number};
    } else if (is_open ? !result.has_value() : !extent.is_extent() || !IsIndependent(extent)) {
      return found;
    } else if (!result.has_value() && before.has_value()) {
      before = Product(*before, extent);
    }
  }
  return result.value_or(found);
}

RowInfo RowExtents::Tile(absl::Span<const RowInfo> rows, const ValueExtents& data,
                         const std::vector<Extent>& repeats, const RowInfo& found) const {
  const size_t rank = std::max(repeats.size(), data.shape->size());
  std::optional<RowInfo> result;
  for (size_t axis = 0; axis < rank; ++axis) {
    const Extent from = AlignedAt(*data.shape, rank, axis);
    const Extent times = AlignedAt(repeats, rank, axis);
    if (rows[0].kind == Kind::kRows &&
        axis == static_cast<size_t>(rows[0].axis) + rank - data.shape->size()) {
      if (times != Extent{} || result.has_value()) {
        return found;
      }
      result = RowInfo{Kind::kRows, static_cast<int>(axis), rows[0].factor};
    } else if (HasRows(times)) {
      // The data as a whole, once or several times for each row.
      if (result.has_value() || rows[0].kind == Kind::kRows || times.symbols.size() != 1 ||
          !from.is_number()) {
        return found;
      }
      result = RowInfo{Kind::kRows, static_cast<int>(axis), times.number * from.number};
    } else if (!IsIndependent(times) || !IsIndependent(from)) {
      return found;
    }
  }
  return result.value_or(found);
}

}  // namespace beamwright::ops
