// ShapeFinder::Find is a list of operators, each with its function:
//
// - Reshape (ReshapedTo of short_lists.cc), Broadcast (WidenedTo, or the target itself), Tile
//   (RepeatedShape) and Slice (SlicedShape) read lists of extents;
// - Range (CountedShape) and Concat (JoinedShape) give differences and sums of extents;
// - convolutions and pooling (WindowedShape) give quotients, rounded down;
// - the others have the shape of one of their inputs.
//
// What comes out is true in every run or it is nothing: an extent that could be one thing or
// another gets a new symbol.
#include <algorithm>
#include <string>

#include "ops/compile/extents.h"
#include "ops/compile/short_lists.h"
#include "ops/kernels/windows.h"

namespace beamwright::ops {
namespace {

class ShapeFinder {
 public:
  ShapeFinder(const Extents& found, Symbols& symbols) : found_(found), symbols_(symbols) {}

  std::optional<std::vector<Extent>> Find(const Node& node) {
    if (node.op == "Reshape") {
      return ReshapedTo(found_.of_input(node, 0), found_.of_input(node, 1),
                        node.attributes.Bool("special_zero", true).value_or(true));
    }
    if (node.op == "Broadcast" && IsNumpyBroadcast(node)) {
      const auto& target = found_.of_input(node, 1).elements;
      const bool extents =
          target.has_value() && std::all_of(target->begin(), target->end(),
                                            [](const Extent& e) { return e.is_extent(); });
      return extents ? target : std::nullopt;
    }
    if (node.op == "Broadcast" && IsBidirectional(node)) {
      return WidenedTo(found_.of_input(node, 0).shape, found_.of_input(node, 1).elements);
    }
    if (node.op == "Tile") {
      return RepeatedShape(found_.of_input(node, 0).shape, found_.of_input(node, 1).elements);
    }
    if (node.op == "GatherElements") {
      return found_.of_input(node, 1).shape;
    }
    if (node.op == "Concat") {
      return JoinedShape(node);
    }
    if (node.op == "Slice") {
      return SlicedShape(node);
    }
    if (node.op == "Range") {
      return CountedShape(node);
    }
    if (node.op == "Convolution" || node.op == "GroupConvolution" || node.op == "AvgPool" ||
        node.op == "MaxPool") {
      return WindowedShape(node);
    }
    if (node.op == "SoftMax" || node.op == "LogSoftmax" || node.op == "CumSum" ||
        node.op == "ScatterNDUpdate" || node.op == "ScatterElementsUpdate") {
      return found_.of_input(node, 0).shape;
    }
    return std::nullopt;
  }

 private:
  // Of sliding windows: rows [N, channels, spatial axes..]. Extents that are not known get new
  // symbols.
  std::optional<std::vector<Extent>> WindowedShape(const Node& node) {
    const auto& data = found_.of_input(node, 0).shape;
    const absl::StatusOr<WindowOptions> options = ParseWindows(node);
    const absl::StatusOr<std::vector<int64_t>> pool = node.attributes.Ints("kernel", {});
    const size_t rank = data.has_value() ? data->size() : 0;
    if (rank < 3 || !options.ok() || !pool.ok() ||
        !CheckWindowRank(*options, static_cast<int>(rank) - 2).ok() ||
        options->auto_pad != WindowOptions::AutoPad::kExplicit ||
        options->rounding != WindowOptions::Rounding::kFloor) {
      return std::nullopt;
    }
    const bool is_pool = node.op == "MaxPool" || node.op == "AvgPool";
    std::vector<Extent> kernel;
    for (const int64_t extent : *pool) {
      kernel.push_back(Extent{extent, {}});
    }
    if (!is_pool) {
      kernel = found_.of_input(node, 1).shape.value_or(std::vector<Extent>());
    }
    const size_t front = is_pool ? 0 : kernel.size() - std::min(kernel.size(), rank - 2);
    if (kernel.size() != front + rank - 2) {
      return std::nullopt;
    }
    std::vector<Extent> shape = {(*data)[0], is_pool ? (*data)[1] : symbols_.New()};
    for (size_t axis = 2; axis < rank; ++axis) {
      shape.push_back(WindowsOn((*data)[axis], kernel[front + axis - 2], *options, axis - 2)
                          .value_or(symbols_.New()));
    }
    return shape;
  }

  // floor((extent + padding - dilation * (kernel - 1) - 1) / stride) + 1, if that is 0 or more.
  std::optional<Extent> WindowsOn(const Extent& extent, const Extent& kernel,
                                  const WindowOptions& options, size_t axis) {
    const auto entry = [axis](const Ints& list, int64_t fallback) {
      return list.empty() ? fallback : list[axis];
    };
    if (!kernel.is_number() || kernel.number <= 0 || kernel.number >= int64_t{1} << 31) {
      return std::nullopt;
    }
    const int64_t stride = entry(options.strides, 1);
    const int64_t added = entry(options.pads_begin, 0) + entry(options.pads_end, 0) -
                          entry(options.dilations, 1) * (kernel.number - 1) - 1 + stride;
    const std::optional<Extent> padded = symbols_.Sum(extent, Extent{added, {}});
    const std::optional<Extent> count =
        padded.has_value() ? symbols_.Floor(*padded, stride) : std::nullopt;
    return count.has_value() && count->is_extent() ? count : std::nullopt;
  }

  // The shape of data repeated along each axis; shapes as NumPy aligns them.
  static std::optional<std::vector<Extent>> RepeatedShape(
      const std::optional<std::vector<Extent>>& data,
      const std::optional<std::vector<Extent>>& repeats) {
    if (!data.has_value() || !repeats.has_value()) {
      return std::nullopt;
    }
    const size_t rank = std::max(data->size(), repeats->size());
    std::vector<Extent> repeated;
    for (size_t axis = 0; axis < rank; ++axis) {
      const std::optional<Extent> extent =
          Product(AlignedAt(*data, rank, axis), AlignedAt(*repeats, rank, axis));
      if (!extent.has_value() || !extent->is_extent()) {
        return std::nullopt;
      }
      repeated.push_back(*extent);
    }
    return repeated;
  }

  // The only element of an input; nothing if it is not known, or there are several.
  std::optional<Extent> Single(const Node& node, size_t port) const {
    const auto& value = found_.of_input(node, port).elements;
    return value.has_value() && value->size() == 1 ? std::optional(value->front()) : std::nullopt;
  }

  // Of n, n + 1, .. m - 1, where m is at least n: [m - n].
  std::optional<std::vector<Extent>> CountedShape(const Node& node) {
    const std::optional<Extent> start = Single(node, 0);
    const std::optional<Extent> stop = Single(node, 1);
    if (!start.has_value() || !stop.has_value() || Single(node, 2) != Extent{} ||
        !symbols_.AtMost(*start, *stop)) {
      return std::nullopt;
    }
    const std::optional<Extent> count = symbols_.Difference(*stop, *start);
    return count.has_value() ? std::optional(std::vector<Extent>{*count}) : std::nullopt;
  }

  // The sum on the axis along which values are joined; on the others they agree.
  std::optional<std::vector<Extent>> JoinedShape(const Node& node) {
    std::optional<std::vector<Extent>> joined = found_.of_input(node, 0).shape;
    const int64_t given = node.attributes.Int("axis", 0).value_or(0);
    const std::optional<size_t> axis =
        joined.has_value() ? AxisOf(given, joined->size()) : std::nullopt;
    for (size_t port = 1; axis.has_value() && port < node.inputs.size(); ++port) {
      const auto& shape = found_.of_input(node, port).shape;
      if (!shape.has_value() || shape->size() != joined->size()) {
        return std::nullopt;
      }
      const std::optional<Extent> sum = symbols_.Sum((*joined)[*axis], (*shape)[*axis]);
      if (!sum.has_value()) {
        return std::nullopt;
      }
      (*joined)[*axis] = *sum;
    }
    return axis.has_value() ? joined : std::nullopt;
  }

  // Where a Slice of step 1 begins or ends on an axis of this extent.
  std::optional<Extent> PlaceOn(const Extent& extent, const Extent& given) {
    constexpr int64_t kEnd = 1 << 30;  // and more: as far as there is anything
    if (given.is_number() && (given.number >= kEnd || given.number <= -kEnd)) {
      return given.number > 0 ? extent : Extent{0, {}};
    }
    const std::optional<Extent> place =
        given.is_number() && given.number < 0 ? symbols_.Sum(extent, given) : std::optional(given);
    return place.has_value() && symbols_.AtMost(Extent{0, {}}, *place) &&
                   symbols_.AtMost(*place, extent)
               ? place
               : std::nullopt;
  }

  // Extents that are not known get new symbols.
  std::optional<std::vector<Extent>> SlicedShape(const Node& node) {
    std::optional<std::vector<Extent>> shape = found_.of_input(node, 0).shape;
    const auto& starts = found_.of_input(node, 1).elements;
    const auto& stops = found_.of_input(node, 2).elements;
    const auto& steps = found_.of_input(node, 3).elements;
    const auto& axes = found_.of_input(node, 4).elements;
    const bool known =
        shape.has_value() && starts.has_value() && stops.has_value() && steps.has_value() &&
        stops->size() == starts->size() && steps->size() == starts->size() &&
        (node.inputs.size() < 5 || (axes.has_value() && axes->size() == starts->size()));
    for (size_t i = 0; known && i < starts->size(); ++i) {
      const Extent stated =
          node.inputs.size() < 5 ? Extent{static_cast<int64_t>(i), {}} : (*axes)[i];
      const std::optional<size_t> axis =
          stated.is_number() ? AxisOf(stated.number, shape->size()) : std::nullopt;
      if (!axis.has_value()) {
        return std::nullopt;
      }
      Extent& extent = (*shape)[*axis];
      const std::optional<Extent> start = PlaceOn(extent, (*starts)[i]);
      const std::optional<Extent> stop = PlaceOn(extent, (*stops)[i]);
      const bool is_plain = start.has_value() && stop.has_value() && (*steps)[i] == Extent{} &&
                            symbols_.AtMost(*start, *stop);
      const std::optional<Extent> count =
          is_plain ? symbols_.Difference(*stop, *start) : std::nullopt;
      extent = count.has_value() ? *count : symbols_.New();
    }
    return known ? shape : std::nullopt;
  }

  // Whether input 0 is [1, 1, ..], at most `rank` ones.
  bool IsOneElement(const Node& node, size_t rank) const {
    const auto& data = found_.of_input(node, 0).shape;
    return data.has_value() && data->size() <= rank &&
           std::all_of(data->begin(), data->end(),
                       [](const Extent& extent) { return extent == Extent{}; });
  }

  // The target of a Broadcast is its shape: always in mode numpy, and for one element.
  bool IsNumpyBroadcast(const Node& node) const {
    const std::string mode = node.attributes.String("mode", "numpy").value_or("");
    return mode == "numpy" || (mode == "bidirectional" && IsOneElement(node, 1));
  }

  static bool IsBidirectional(const Node& node) {
    return node.attributes.String("mode", "numpy").value_or("") == "bidirectional";
  }

  // The shape of data [..] that NumPy broadcasts with a target; nothing if an extent can be either.
  static std::optional<std::vector<Extent>> WidenedTo(
      const std::optional<std::vector<Extent>>& data,
      const std::optional<std::vector<Extent>>& target) {
    if (!data.has_value() || !target.has_value()) {
      return std::nullopt;
    }
    const size_t rank = std::max(data->size(), target->size());
    std::vector<Extent> widened;
    for (size_t axis = 0; axis < rank; ++axis) {
      const Extent from = AlignedAt(*data, rank, axis);
      const Extent to = AlignedAt(*target, rank, axis);
      if (!to.is_extent() || (from != to && from != Extent{} && to != Extent{})) {
        return std::nullopt;
      }
      widened.push_back(from == Extent{} ? to : from);
    }
    return widened;
  }

  const Extents& found_;
  Symbols& symbols_;
};

}  // namespace

std::optional<size_t> AxisOf(int64_t axis, size_t rank) {
  const int64_t from_front = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  return from_front >= 0 && from_front < static_cast<int64_t>(rank)
             ? std::optional<size_t>(static_cast<size_t>(from_front))
             : std::nullopt;
}

std::optional<std::vector<Extent>> ShapeByElements(const Node& node, const Extents& found,
                                                   Symbols& symbols) {
  return ShapeFinder(found, symbols).Find(node);
}

}  // namespace beamwright::ops
