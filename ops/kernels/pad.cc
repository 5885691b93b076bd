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
#include <algorithm>
#include <vector>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/strided_copy.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {
namespace {

// kWrap is ONNX's; the others are OpenVINO's.
enum class Mode { kConstant, kEdge, kReflect, kSymmetric, kWrap };

struct PadOp {
  using Options = Mode;
  static absl::StatusOr<Options> Parse(const Node& node) {
    BW_ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("pad_mode", ""));
    if (mode == "constant") {
      return Mode::kConstant;
    }
    if (mode == "edge") {
      return Mode::kEdge;
    }
    if (mode == "reflect") {
      return Mode::kReflect;
    }
    if (mode == "symmetric") {
      return Mode::kSymmetric;
    }
    if (mode == "wrap") {
      return Mode::kWrap;
    }
    return Invalid("attribute pad_mode: '", mode,
                   "' is not supported, only constant, edge, reflect, symmetric and wrap");
  }

  // The extent of a padded axis.
  static absl::StatusOr<int64_t> PaddedExtent(Mode mode, size_t axis, int64_t extent, int64_t begin,
                                              int64_t end) {
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
    const int64_t most = mode == Mode::kReflect     ? extent - 1
                         : mode == Mode::kSymmetric ? extent
                         : mode == Mode::kConstant  ? kMost
                                                    : (extent > 0 ? kMost : 0);
    for (const auto& [name, pad] : pads) {
      if (pad > std::max<int64_t>(most, 0)) {
        return Invalid(name, "[", axis, "]: ", pad, " is more than the ",
                       std::max<int64_t>(most, 0), " that the mode can take from extent ", extent);
      }
    }
    return padded;
  }

  static absl::Status Shapes(Mode mode, absl::Span<const InputInfo> inputs,
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
  static int64_t Source(Mode mode, int64_t at, int64_t extent) {
    if (at >= 0 && at < extent) {
      return at;
    }
    switch (mode) {
      case Mode::kConstant:
        return -1;
      case Mode::kEdge:
        return at < 0 ? 0 : extent - 1;
      case Mode::kReflect:
        return at < 0 ? -at : 2 * (extent - 1) - at;
      case Mode::kWrap:
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

  static absl::Status Compute(Mode mode, const ExecutionContext&,
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
