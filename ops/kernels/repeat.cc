// Tile and Broadcast: both repeat a tensor along axes, and both are a strided copy, in which a
// repeated axis has the stride 0.
//
// Tile repeats each axis as often as a list says. An output axis is a pair of axes of the copy:
// repeats (stride 0), then the elements. Broadcast stretches axes of 1 to a target shape; in the
// mode "explicit" a list says where the data's axes are in the target.
//
// Axes are counted from the last one, as NumPy does. If the list is not known, the output's rank
// may still be (RankFromList).
//
// Rows of several requests stay apart if the list has a 1 for their axis (RowsWhereOne). A constant
// target cannot have the number of rows, so Broadcast keeps rows only where it is bidirectional.
#include <algorithm>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/strided_copy.h"

namespace beamwright::ops {
namespace {

// Sets the output's type, and its rank if it is known: it follows from the rank of the data and the
// length of the list in input 1. Returns the rank, or nothing.
absl::StatusOr<std::optional<int>> RankFromList(absl::Span<const InputInfo> inputs,
                                                bool at_least_data, absl::Span<ValueInfo> outputs) {
  const PartialShape& shape = inputs[0].shape;
  const int64_t length = ListLength(inputs[1]);
  outputs[0].dtype = inputs[0].dtype;
  outputs[0].shape = PartialShape();
  if (!shape.has_rank() || length < 0) {
    return std::nullopt;
  }
  if (length > (1 << 16)) {
    return Invalid("a list of ", length, " extents is too long");
  }
  const int rank =
      at_least_data ? std::max(shape.rank(), static_cast<int>(length)) : static_cast<int>(length);
  outputs[0].shape = DynamicShape(rank);
  return rank;
}

// The rows of the data stay rows if the list in input 1 has a 1 for their axis.
RowInfo RowsWhereOne(absl::string_view name, absl::Span<const RowInfo> rows,
                     absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  Ints list;
  if (!OnlyFirstHasRows(rows).has_value() || !inputs[0].shape.has_rank() ||
      !ReadInts(inputs[1], name, list).value_or(false)) {
    return kMixedRows;
  }
  const int rank = inputs[0].shape.rank();
  const int length = static_cast<int>(list.size());
  const int entry = rows[0].axis + length - rank;
  if (entry >= 0 && list[static_cast<size_t>(entry)] != 1) {
    return kMixedRows;
  }
  return RowsAt(rows[0].axis + std::max(length - rank, 0), rows[0].factor);
}

struct TileOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }
  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 2, 2, outputs));
    Ints repeats;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "repeats", repeats));
    BW_ASSIGN_OR_RETURN(const std::optional<int> rank, RankFromList(inputs, true, outputs));
    if (!known || !rank.has_value()) {
      return absl::OkStatus();
    }
    const PartialShape& shape = inputs[0].shape;
    const int length = static_cast<int>(repeats.size());
    Shape dims(static_cast<size_t>(*rank), 1);
    for (int i = 1; i <= *rank; ++i) {
      const int64_t repeat = i <= length ? repeats[repeats.size() - static_cast<size_t>(i)] : 1;
      const int64_t dim = i <= shape.rank() ? shape.dim(shape.rank() - i) : 1;
      if (repeat < 0 || repeat > (int64_t{1} << 48) ||
          (dim > 0 && repeat > (int64_t{1} << 48) / dim)) {
        return Invalid("repeats[", length - i, "]: ", repeat, " is negative or too large");
      }
      dims[static_cast<size_t>(*rank - i)] = dim < 0 ? PartialShape::kDynamic : dim * repeat;
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }
  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    // Each axis as a pair: repeats (stride 0), then the axis itself.
    const Tensor& data = *inputs[0];
    const int rank = outputs[0].rank();
    const Shape dense = DenseStrides(data.shape());
    Shape extents;
    Shape strides;
    for (int i = 0; i < rank; ++i) {
      const int axis = i - (rank - data.rank());
      const int64_t entry = i - (rank - inputs[1]->num_elements());
      extents.push_back(entry < 0 ? 1 : IntAt(*inputs[1], entry));
      strides.push_back(0);
      extents.push_back(axis < 0 ? 1 : data.dim(axis));
      strides.push_back(axis < 0 ? 0 : dense[static_cast<size_t>(axis)]);
    }
    StridedCopy(data, 0, extents, strides, outputs[0]);
    return absl::OkStatus();
  }
  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    return RowsWhereOne("repeats", rows, inputs);
  }
};

enum class Mode { kNumpy, kBidirectional, kExplicit };

struct BroadcastOp {
  using Options = Mode;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "numpy"));
    if (mode == "numpy") {
      return Mode::kNumpy;
    }
    if (mode == "bidirectional") {
      return Mode::kBidirectional;
    }
    if (mode == "explicit") {
      return Mode::kExplicit;
    }
    return Invalid("attribute mode: '", mode,
                   "' is not supported, only numpy, bidirectional and explicit");
  }

  // The input's shape as it is aligned with the target: unchanged, or spread by axes_mapping.
  static absl::StatusOr<PartialShape> Aligned(Mode mode, const PartialShape& shape,
                                              absl::Span<const int64_t> mapping, int rank) {
    if (mode != Mode::kExplicit) {
      return shape;
    }
    if (mapping.size() != static_cast<size_t>(shape.rank())) {
      return Invalid("axes_mapping: has ", mapping.size(), " elements, expected ", shape.rank());
    }
    Shape dims(static_cast<size_t>(rank), 1);
    for (size_t i = 0; i < mapping.size(); ++i) {
      if (mapping[i] < 0 || mapping[i] >= rank || (i > 0 && mapping[i] <= mapping[i - 1])) {
        return Invalid("axes_mapping[", i, "]: ", mapping[i], " must ascend inside [0, ", rank,
                       ")");
      }
      dims[static_cast<size_t>(mapping[i])] = shape.dim(static_cast<int>(i));
    }
    return PartialShape(std::move(dims));
  }

  static absl::Status Shapes(Mode mode, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    const size_t count = mode == Mode::kExplicit ? 3 : 2;
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, count, 3, outputs));
    Ints target;
    BW_ASSIGN_OR_RETURN(const bool known, ReadInts(inputs[1], "target_shape", target));
    Ints mapping;
    bool mapping_known = true;
    if (mode == Mode::kExplicit) {
      BW_ASSIGN_OR_RETURN(mapping_known, ReadInts(inputs[2], "axes_mapping", mapping));
    }
    BW_ASSIGN_OR_RETURN(const std::optional<int> rank,
                        RankFromList(inputs, mode == Mode::kBidirectional, outputs));
    if (!known || !rank.has_value()) {
      return absl::OkStatus();
    }
    const PartialShape& shape = inputs[0].shape;
    for (size_t i = 0; i < target.size(); ++i) {
      if (target[i] < 0) {
        return Invalid("target_shape[", i, "]: ", target[i], " is negative");
      }
    }
    const PartialShape wanted(Shape(target.begin(), target.end()));
    if (!mapping_known) {
      outputs[0].shape = wanted;
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const PartialShape aligned, Aligned(mode, shape, mapping, *rank));
    BW_ASSIGN_OR_RETURN(PartialShape result, BroadcastPartial(aligned, wanted));
    if (mode != Mode::kBidirectional) {
      if (!wanted.is_static() || result.rank() != wanted.rank() || !result.Accepts(wanted.dims())) {
        return Invalid("data: shape ", shape.ToString(), " does not broadcast to target_shape ",
                       wanted.ToString());
      }
      result = wanted;
    }
    outputs[0].shape = std::move(result);
    return absl::OkStatus();
  }

  static absl::Status Compute(Mode mode, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    Tensor& out = outputs[0];
    const Shape dense = DenseStrides(data.shape());
    Shape strides(out.shape().size(), 0);
    for (int axis = 0; axis < data.rank(); ++axis) {
      const int64_t place =
          mode == Mode::kExplicit ? IntAt(*inputs[2], axis) : axis + out.rank() - data.rank();
      strides[static_cast<size_t>(place)] =
          data.dim(axis) == 1 ? 0 : dense[static_cast<size_t>(axis)];
    }
    StridedCopy(data, 0, out.shape(), strides, out);
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node& node, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    // A constant target can't name the number of rows; only a 1 that the data widens keeps them.
    const absl::StatusOr<Mode> mode = Parse(node);
    return mode.ok() && *mode == Mode::kBidirectional ? RowsWhereOne("target_shape", rows, inputs)
                                                      : RowsWithoutRows(rows).value_or(kMixedRows);
  }
};

}  // namespace

constinit const OperatorCode kTile = CodeOf<TileOp>(&TileOp::Rows);
constinit const OperatorCode kBroadcast = CodeOf<BroadcastOp>(&BroadcastOp::Rows);

}  // namespace beamwright::ops
