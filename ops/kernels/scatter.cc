// Operators that write slices and elements at indices.

#include <cstring>
#include <map>
#include <type_traits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/types.h"

namespace beamwright::ops {

// What the scatter operators share.

enum class Reduction { kNone, kSum, kSub, kProd, kMin, kMax, kMean };

// Attribute reduction, default none. `refused` is the one of the list that the operator lacks: kSub
// or kMean.
absl::StatusOr<Reduction> ParseReduction(const Node& node, Reduction refused);

// The checks that the three share: inputs, types, and the output, which is like data.
absl::Status ScatterShapes(size_t num_inputs, Reduction reduction,
                           absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs);
// `updates` must have the extents of `expected` as far as both are known.
absl::Status CheckUpdates(const PartialShape& updates, const PartialShape& expected);
// All elements of `from` to `to`, which has its type and shape.
void CopyAll(const Tensor& from, Tensor& to);

// An element with an update taken in. Of boolean a sum is "or", a difference "exclusive or", a
// product "and".
template <typename T>
T Reduced(Reduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMax:
        return a || b;
      case Reduction::kSub:
        return a != b;
      case Reduction::kProd:
      case Reduction::kMin:
        return a && b;
      default:
        return b;
    }
  } else {
    const auto x = static_cast<WrapType<T>>(a);
    const auto y = static_cast<WrapType<T>>(b);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kMean:
        return static_cast<T>(x + y);
      case Reduction::kSub:
        return static_cast<T>(x - y);
      case Reduction::kProd:
        return static_cast<T>(x * y);
      case Reduction::kMin:
        return b < a ? b : a;
      case Reduction::kMax:
        return a < b ? b : a;
      default:
        return b;
    }
  }
}

// ScatterUpdate and ScatterND: a copy of `data` in which elements at given places are replaced by,
// or combined with, updates. Other scatter operators share the functions at the top.
//
//   ScatterUpdate   out[i..., indices[m...], j...] = updates[i..., m..., j...]
//   ScatterND       out[indices[k..., :], j...]    = updates[k..., j...]
//
// ScatterND's tuples of indices name the first axes (TupleOffsets makes offsets of them, and checks
// them). With a reduction (sum, sub, prod, min, max) an update is combined with what is at its
// place; several updates of one place are applied in order.
//
// Rows of several requests can be scattered together if the indices are the same for all of them
// and do not name the axis of the rows (Rows).

absl::StatusOr<Reduction> ParseReduction(const Node& node, Reduction refused) {
  static const auto& names = *new std::map<std::string, Reduction>{
      {"none", Reduction::kNone}, {"sum", Reduction::kSum}, {"sub", Reduction::kSub},
      {"prod", Reduction::kProd}, {"min", Reduction::kMin}, {"max", Reduction::kMax},
      {"mean", Reduction::kMean}};
  BW_ASSIGN_OR_RETURN(const std::string name, node.attributes.String("reduction", "none"));
  const auto found = names.find(name);
  if (found == names.end() || found->second == refused) {
    return Invalid(
        "attribute reduction: '", name, "' is not supported, only none, sum, ",
        refused == Reduction::kSub ? "prod, min, max and mean" : "sub, prod, min and max");
  }
  return found->second;
}

absl::Status ScatterShapes(size_t num_inputs, Reduction reduction,
                           absl::Span<const InputInfo> inputs, absl::Span<ValueInfo> outputs) {
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, num_inputs, num_inputs, outputs));
  BW_RETURN_IF_ERROR(ExpectType(inputs[1], "indices", kIntegerTypes));
  BW_RETURN_IF_ERROR(ExpectType(inputs[2], "updates", {inputs[0].dtype}));
  if (reduction == Reduction::kMean) {
    BW_RETURN_IF_ERROR(ExpectType(inputs[0], "data", kNumericTypes));
  }
  outputs[0].dtype = inputs[0].dtype;
  outputs[0].shape = inputs[0].shape;
  return absl::OkStatus();
}

absl::Status CheckUpdates(const PartialShape& updates, const PartialShape& expected) {
  bool fits = updates.rank() == expected.rank();
  for (int i = 0; fits && i < updates.rank(); ++i) {
    fits = MergeExtents(updates.dim(i), expected.dim(i)).ok();
  }
  return !updates.has_rank() || !expected.has_rank() || fits
             ? absl::OkStatus()
             : Invalid("updates: shape ", updates.ToString(), " must be ", expected.ToString());
}

void CopyAll(const Tensor& from, Tensor& to) {
  if (from.num_bytes() > 0) {
    std::memcpy(to.mutable_bytes(), from.bytes(), static_cast<size_t>(from.num_bytes()));
  }
}

namespace {

// data[..., indices[m, n], ...] = updates[..., m, n, ...]
struct ScatterUpdateOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node& node) { return Options::Parse(node); }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ScatterShapes(4, Reduction::kNone, inputs, outputs));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[3], "axis"));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (!axis.has_value() || !data.has_rank()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, data.rank()));
    if (!indices.has_rank()) {
      return absl::OkStatus();
    }
    Shape dims(data.dims().begin(), data.dims().begin() + normal);
    dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
    dims.insert(dims.end(), data.dims().begin() + normal + 1, data.dims().end());
    return CheckUpdates(inputs[2].shape, PartialShape(std::move(dims)));
  }

  static absl::Status Compute(const Options&, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    const Tensor& updates = *inputs[2];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(IntAt(*inputs[3], 0), data.rank()));
    const int64_t extent = data.dim(axis);
    BW_RETURN_IF_ERROR(CheckIndices(indices, "indices", 0, extent));
    CopyAll(data, outputs[0]);
    const int64_t outer = Product(data.shape(), 0, axis);
    const int64_t bytes = Product(data.shape(), axis + 1, data.rank()) * SizeOf(data.dtype());
    const std::byte* in = updates.bytes();
    for (int64_t i = 0; i < outer && bytes > 0; ++i) {
      for (int64_t k = 0; k < indices.num_elements(); ++k) {
        std::memcpy(outputs[0].mutable_bytes() + (i * extent + IntAt(indices, k)) * bytes, in,
                    static_cast<size_t>(bytes));
        in += bytes;
      }
    }
    return absl::OkStatus();
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const std::optional<int64_t> axis = ReadInt(inputs[3], "axis").value_or(std::nullopt);
    if (!IsRows(rows[0]) || !IsFixed(rows[1]) || !IsRows(rows[2]) || !axis.has_value() ||
        !inputs[0].shape.has_rank() || !inputs[1].shape.has_rank()) {
      return kMixedRows;
    }
    const absl::StatusOr<int> normal = NormalizeAxis(*axis, inputs[0].shape.rank());
    if (!normal.ok() || *normal == rows[0].axis) {
      return kMixedRows;
    }
    const int in_updates =
        rows[0].axis < *normal ? rows[0].axis : rows[0].axis - 1 + inputs[1].shape.rank();
    return rows[2] == RowsAt(in_updates, rows[0].factor) ? rows[0] : kMixedRows;
  }
};

// data[indices[i, :], ...] = updates[i, ...]
struct ScatterNdOp {
  using Options = Reduction;
  static absl::StatusOr<Options> Parse(const Node& node) {
    return ParseReduction(node, Reduction::kMean);
  }
  static bool WidensHalves(Options reduction) { return reduction != Reduction::kNone; }

  static absl::Status Shapes(Options reduction, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ScatterShapes(3, reduction, inputs, outputs));
    const PartialShape& data = inputs[0].shape;
    const PartialShape& indices = inputs[1].shape;
    if (indices.has_rank() && indices.rank() == 0) {
      return Invalid("indices: a scalar names no place");
    }
    if (!data.has_rank() || !indices.has_rank() || indices.dim(indices.rank() - 1) < 0) {
      return absl::OkStatus();
    }
    const int64_t length = indices.dim(indices.rank() - 1);
    if (length > data.rank()) {
      return Invalid("indices: tuples of ", length, " for data of shape ", data.ToString());
    }
    Shape dims(indices.dims().begin(), indices.dims().end() - 1);
    dims.insert(dims.end(), data.dims().begin() + length, data.dims().end());
    // A single update may come as a scalar or as one element.
    const PartialShape& updates = inputs[2].shape;
    if (dims.empty() && updates.has_rank() && updates.rank() == 1) {
      dims = {1};
    }
    return CheckUpdates(updates, PartialShape(std::move(dims)));
  }

  static absl::Status Compute(Options reduction, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, TupleOffsets(indices, data.shape(), 0));
    CopyAll(data, outputs[0]);
    const int named = static_cast<int>(indices.dim(indices.rank() - 1));
    const int64_t slice = Product(data.shape(), named, data.rank());
    if (reduction == Reduction::kNone) {
      const auto bytes = static_cast<size_t>(slice * SizeOf(data.dtype()));
      for (size_t i = 0; i < offsets.size() && bytes > 0; ++i) {
        std::memcpy(outputs[0].mutable_bytes() + static_cast<size_t>(offsets[i]) * bytes,
                    inputs[2]->bytes() + i * bytes, bytes);
      }
      return absl::OkStatus();
    }
    return VisitArithmetic(data.dtype(), [&](auto type) {
      using T = decltype(type);
      const T* update = inputs[2]->data<T>();
      for (const int64_t offset : offsets) {
        T* out = outputs[0].mutable_data<T>() + offset * slice;
        for (int64_t i = 0; i < slice; ++i) {
          out[i] = Reduced(reduction, out[i], *update++);
        }
      }
      return absl::OkStatus();
    });
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const PartialShape& indices = inputs[1].shape;
    if (!IsRows(rows[0]) || !IsFixed(rows[1]) || !IsRows(rows[2]) || !indices.has_rank() ||
        indices.rank() == 0) {
      return kMixedRows;
    }
    const int64_t length = indices.dim(indices.rank() - 1);
    const int in_updates = rows[0].axis - static_cast<int>(length) + indices.rank() - 1;
    return length >= 0 && rows[0].axis >= length && rows[2] == RowsAt(in_updates, rows[0].factor)
               ? rows[0]
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kScatterUpdate = CodeOf<ScatterUpdateOp>(&ScatterUpdateOp::Rows);
constinit const OperatorCode kScatterNd = CodeOf<ScatterNdOp>(&ScatterNdOp::Rows);

// ScatterElements: out[i, indices[i, j, k], k] is updated with updates[i, j, k] (for axis 1 of 3).
// ForEachUpdate walks through updates and places in step, as GatherElements does.
//
// Without a reduction, the last update of a place counts, as words of any type. With one, updates
// are combined in order, with the data's value as the first unless use_init_val is false. Means of
// integers are sums in 64 bits, divided and rounded down (Average).

namespace {

// data[i, indices[i, j, k], k] = updates[i, j, k], here for axis 1 of 3.
struct ScatterElementsOp {
  struct Options {
    Reduction reduction = Reduction::kNone;
    bool use_init_val = true;
  };
  static absl::StatusOr<Options> Parse(const Node& node) {
    Options options;
    BW_ASSIGN_OR_RETURN(options.reduction, ParseReduction(node, Reduction::kSub));
    BW_ASSIGN_OR_RETURN(options.use_init_val, node.attributes.Bool("use_init_val", true));
    return options;
  }
  static bool WidensHalves(const Options& options) { return options.reduction != Reduction::kNone; }

  static absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    BW_RETURN_IF_ERROR(ScatterShapes(4, options.reduction, inputs, outputs));
    BW_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ReadInt(inputs[3], "axis"));
    BW_RETURN_IF_ERROR(CheckUpdates(inputs[2].shape, inputs[1].shape));
    return axis.has_value() ? CheckElementIndices(inputs[0].shape, inputs[1].shape, *axis)
                            : absl::OkStatus();
  }

  // place(position of the update, offset in data) for each update.
  template <typename Place>
  static void ForEachUpdate(absl::Span<const Tensor* const> inputs, int axis, Place place) {
    const Tensor& data = *inputs[0];
    const Tensor& indices = *inputs[1];
    const int64_t extent = data.dim(axis);
    const int64_t stride = Product(data.shape(), axis + 1, data.rank());
    int64_t position = 0;
    ForEachRun(WalkElements(data.shape(), indices.shape(), axis),
               [&](int64_t offset, int64_t count, int64_t step) {
                 for (int64_t i = 0; i < count; ++i, ++position) {
                   place(position, offset + i * step + IndexAt(indices, position, extent) * stride);
                 }
               });
  }

  template <typename T>
  static absl::Status Reduce(const Options& options, absl::Span<const Tensor* const> inputs,
                             int axis, Tensor& output) {
    const T* updates = inputs[2]->data<T>();
    T* out = output.mutable_data<T>();
    // Without the data's value, the first update of a place replaces it.
    std::vector<bool> fresh(options.use_init_val ? 0 : static_cast<size_t>(output.num_elements()),
                            true);
    ForEachUpdate(inputs, axis, [&](int64_t position, int64_t offset) {
      const auto at = static_cast<size_t>(offset);
      const bool first = !fresh.empty() && fresh[at];
      out[offset] =
          first ? updates[position] : Reduced(options.reduction, out[offset], updates[position]);
      if (first) {
        fresh[at] = false;
      }
    });
    return absl::OkStatus();
  }

  // Means: of integers the sum is collected in 64 bits, and the quotient rounded down.
  template <typename T>
  static absl::Status Average(const Options& options, absl::Span<const Tensor* const> inputs,
                              int axis, Tensor& output) {
    using Sum = std::conditional_t<std::is_floating_point_v<T>, T,
                                   std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    struct Mean {
      Sum sum = 0;
      int64_t count = 0;
    };
    const T* updates = inputs[2]->data<T>();
    T* out = output.mutable_data<T>();
    std::vector<Mean> means(static_cast<size_t>(output.num_elements()));
    ForEachUpdate(inputs, axis, [&](int64_t position, int64_t offset) {
      Mean& mean = means[static_cast<size_t>(offset)];
      if (mean.count == 0 && options.use_init_val) {
        mean = {static_cast<Sum>(out[offset]), 1};
      }
      mean.sum = Reduced(Reduction::kSum, mean.sum, static_cast<Sum>(updates[position]));
      ++mean.count;
    });
    for (size_t i = 0; i < means.size(); ++i) {
      if (means[i].count > 0) {
        const Sum count = static_cast<Sum>(means[i].count);
        Sum mean = means[i].sum / count;
        if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
          mean -= means[i].sum % count < 0 ? 1 : 0;
        }
        out[i] = static_cast<T>(mean);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options& options, const ExecutionContext&,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    const Tensor& data = *inputs[0];
    BW_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(IntAt(*inputs[3], 0), data.rank()));
    BW_RETURN_IF_ERROR(CheckIndices(*inputs[1], "indices", -data.dim(axis), data.dim(axis)));
    CopyAll(data, outputs[0]);
    switch (options.reduction) {
      case Reduction::kNone:
        VisitWord(data.dtype(), [&](auto type) {
          using T = decltype(type);
          ForEachUpdate(inputs, axis, [&](int64_t position, int64_t offset) {
            MutableWords<T>(outputs[0])[offset] = Words<T>(*inputs[2])[position];
          });
        });
        return absl::OkStatus();
      case Reduction::kMean:
        return VisitNumeric(data.dtype(), [&](auto type) {
          return Average<decltype(type)>(options, inputs, axis, outputs[0]);
        });
      default:
        return VisitArithmetic(data.dtype(), [&](auto type) {
          return Reduce<decltype(type)>(options, inputs, axis, outputs[0]);
        });
    }
  }

  static RowInfo Rows(const Node&, absl::Span<const RowInfo> rows,
                      absl::Span<const InputInfo> inputs) {
    if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
      return *simple;
    }
    const std::optional<int64_t> axis = ReadInt(inputs[3], "axis").value_or(std::nullopt);
    return axis.has_value() && IsFixed(rows[3]) && IsRows(rows[0])
               ? RowsBesideAxis(*axis, rows.subspan(0, 3), inputs)
               : kMixedRows;
  }
};

}  // namespace

constinit const OperatorCode kScatterElements = CodeOf<ScatterElementsOp>(&ScatterElementsOp::Rows);

}  // namespace beamwright::ops
