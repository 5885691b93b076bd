// ScatterElements: out[i, indices[i, j, k], k] is updated with updates[i, j, k] (for axis 1 of 3).
// ForEachUpdate walks through updates and places in step, as GatherElements does.
//
// Without a reduction, the last update of a place counts, as words of any type. With one, updates
// are combined in order, with the data's value as the first unless use_init_val is false. Means of
// integers are sums in 64 bits, divided and rounded down (Average).
#include <type_traits>

#include "ops/kernels/index_movement.h"
#include "ops/kernels/indices.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/scatter.h"

namespace beamwright::ops {
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
