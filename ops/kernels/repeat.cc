// Operators whose result is larger than their input: Tile, Broadcast and Pad.

#include <algorithm>
#include <vector>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

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

// Pad: puts elements before and after each axis; negative counts cut elements off. The modes say
// what is put there:
//
//   data a b c, 2 before and 2 after
//   constant    x x a b c x x
//   edge        a a a b c c c
//   reflect     c b a b c b a
//   symmetric   b a a b c c b
//   wrap        b c a b c a b
//
// For each axis, a list says which coordinate of the data each coordinate of the output reads, or
// -1 for the constant (Source); Copy then goes through the output row by row and adds up the
// offsets.

namespace {

// kWrap is ONNX's; the others are OpenVINO's.
enum class PadMode { kConstant, kEdge, kReflect, kSymmetric, kWrap };

struct PadOp {
  using Options = PadMode;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("pad_mode", ""));
    if (mode == "constant") {
      return PadMode::kConstant;
    }
    if (mode == "edge") {
      return PadMode::kEdge;
    }
    if (mode == "reflect") {
      return PadMode::kReflect;
    }
    if (mode == "symmetric") {
      return PadMode::kSymmetric;
    }
    if (mode == "wrap") {
      return PadMode::kWrap;
    }
    return Invalid("attribute pad_mode: '", mode,
                   "' is not supported, only constant, edge, reflect, symmetric and wrap");
  }

  // The extent of a padded axis.
  static absl::StatusOr<int64_t> PaddedExtent(PadMode mode, size_t axis, int64_t extent,
                                              int64_t begin, int64_t end) {
    constexpr int64_t kMost = int64_t{1} << 48;
    const std::pair<absl::string_view, int64_t> pads[] = {{"pads_begin", begin}, {"pads_end", end}};
    for (const auto& [name, pad] : pads) {
      if (pad < -kMost || pad > kMost) {
        return Invalid(name, "[", axis, "]: ", pad, " is outside [-2^48, 2^48]");
      }
    }
    if (extent < 0) {
      return PartialShape::kDynamic;
    }
    const int64_t padded = begin + extent + end;
    if (padded < 0 || -begin > extent || -end > extent) {
      return Invalid("pads_begin[", axis, "]: ", begin, " and pads_end[", axis, "]: ", end,
                     " cut more away than the extent ", extent);
    }
    const int64_t most = mode == PadMode::kReflect     ? extent - 1
                         : mode == PadMode::kSymmetric ? extent
                         : mode == PadMode::kConstant  ? kMost
                                                       : (extent > 0 ? kMost : 0);
    for (const auto& [name, pad] : pads) {
      if (pad > std::max<int64_t>(most, 0)) {
        return Invalid(name, "[", axis, "]: ", pad, " is more than the ",
                       std::max<int64_t>(most, 0), " that the mode can take from extent ", extent);
      }
    }
    return padded;
  }

  static absl::Status Shapes(PadMode mode, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 3, 4, outputs));
    Ints pads[2];
    bool known = true;
    static constexpr absl::string_view kNames[] = {"pads_begin", "pads_end"};
    const PartialShape& shape = inputs[0].shape;
    for (size_t i = 0; i < 2; ++i) {
      BW_ASSIGN_OR_RETURN(const bool read, ReadInts(inputs[i + 1], kNames[i], pads[i]));
      const int64_t length = ListLength(inputs[i + 1]);
      if (shape.has_rank() && length >= 0 && length != shape.rank()) {
        return Invalid(kNames[i], ": has ", length, " elements for data of rank ", shape.rank());
      }
      known = known && read;
    }
    if (Present(inputs, 3)) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[3], "pad_value", {inputs[0].dtype}));
      if (inputs[3].shape.has_rank() && std::abs(PartialProduct(inputs[3].shape.dims())) != 1) {
        return Invalid("pad_value: shape ", inputs[3].shape.ToString(), " must be a scalar");
      }
    }
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = shape.has_rank() ? DynamicShape(shape.rank()) : PartialShape();
    if (!known || !shape.has_rank()) {
      return absl::OkStatus();
    }
    Shape dims;
    for (size_t axis = 0; axis < pads[0].size(); ++axis) {
      BW_ASSIGN_OR_RETURN(dims.emplace_back(), PaddedExtent(mode, axis, shape.dims()[axis],
                                                            pads[0][axis], pads[1][axis]));
    }
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  // The coordinate of data that coordinate `at` (relative to data's first, possibly outside) reads;
  // -1: the pad value.
  static int64_t Source(PadMode mode, int64_t at, int64_t extent) {
    if (at >= 0 && at < extent) {
      return at;
    }
    switch (mode) {
      case PadMode::kConstant:
        return -1;
      case PadMode::kEdge:
        return at < 0 ? 0 : extent - 1;
      case PadMode::kReflect:
        return at < 0 ? -at : 2 * (extent - 1) - at;
      case PadMode::kWrap:
        return (at % extent + extent) % extent;
      default:
        return at < 0 ? -at - 1 : 2 * extent - 1 - at;
    }
  }

  // Walks the output row by row; `sources` has for each axis the offset in data of each coordinate,
  // or -1.
  template <typename T>
  static void Copy(const Tensor& data, T fill, absl::Span<const std::vector<int64_t>> sources,
                   Tensor& output) {
    const T* in = Words<T>(data);
    T* out = MutableWords<T>(output);
    const size_t inner = sources.size() - 1;
    Shape index(sources.size(), 0);
    for (int64_t done = 0; done < output.num_elements(); done += output.dim(output.rank() - 1)) {
      int64_t offset = 0;
      bool outside = false;
      for (size_t axis = 0; axis < inner; ++axis) {
        const int64_t source = sources[axis][static_cast<size_t>(index[axis])];
        outside = outside || source < 0;
        offset += source;
      }
      for (const int64_t source : sources[inner]) {
        *out++ = outside || source < 0 ? fill : in[offset + source];
      }
      for (size_t axis = inner; axis-- > 0;) {
        if (++index[axis] < static_cast<int64_t>(sources[axis].size())) {
          break;
        }
        index[axis] = 0;
      }
    }
  }

  static absl::Status Compute(PadMode mode, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    Tensor& output = outputs[0];
    if (output.num_elements() == 0) {
      return absl::OkStatus();
    }
    const Shape strides = DenseStrides(data.shape());
    std::vector<std::vector<int64_t>> sources(std::max<size_t>(strides.size(), 1));
    for (int axis = 0; axis < data.rank(); ++axis) {
      const int64_t begin = IntAt(*inputs[1], axis);
      std::vector<int64_t>& list = sources[static_cast<size_t>(axis)];
      list.reserve(static_cast<size_t>(output.dim(axis)));
      for (int64_t i = 0; i < output.dim(axis); ++i) {
        const int64_t source = Source(mode, i - begin, data.dim(axis));
        list.push_back(source < 0 ? -1 : source * strides[static_cast<size_t>(axis)]);
      }
    }
    VisitWord(data.dtype(), [&](auto type) {
      using T = decltype(type);
      const bool has_value = inputs.size() > 3 && inputs[3]->has_value();
      if (data.rank() == 0) {
        *MutableWords<T>(output) = *Words<T>(data);
      } else {
        Copy<T>(data, has_value ? *Words<T>(*inputs[3]) : T{0}, sources, output);
      }
    });
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    Ints begin;
    Ints end;
    if (!OnlyFirstHasRows(rows).has_value() ||
        !ReadInts(inputs[1], "pads_begin", begin).value_or(false) ||
        !ReadInts(inputs[2], "pads_end", end).value_or(false)) {
      return kMixedRows;
    }
    const auto axis = static_cast<size_t>(rows[0].axis);
    return axis < begin.size() && axis < end.size() && begin[axis] == 0 && end[axis] == 0
               ? rows[0]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kPad = CodeOf<PadOp>(&PadOp::Rows);

}  // namespace beamwright::ops
