#include "ops/kernels/gather_tree.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/kernels/inputs.h"
#include "ops/kernels/order.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/rows.h"

namespace beamwright::ops {
namespace {

// The value as a 64-bit integer; false if it is no whole finite number. Values outside the 64-bit
// range saturate: they are out of any range that is asked for.
template <typename T>
bool ToWhole(T value, int64_t& whole) {
  const auto number = Comparable(value);
  if constexpr (std::is_integral_v<decltype(number)>) {
    constexpr auto kMost = std::numeric_limits<int64_t>::max();
    whole = std::is_same_v<T, uint64_t> && static_cast<uint64_t>(number) > uint64_t{kMost}
                ? kMost
                : static_cast<int64_t>(number);
    return true;
  } else {
    constexpr auto kLimit = static_cast<decltype(number)>(int64_t{1} << 62);
    whole = number > kLimit    ? int64_t{1} << 62
            : number < -kLimit ? -(int64_t{1} << 62)
            : number == number ? static_cast<int64_t>(number)
                               : 0;
    return std::isfinite(number) && number == std::floor(number);
  }
}

template <typename T>
struct Tree {
  const T* step_ids;
  const T* parent_ids;
  const T* max_seq_len;
  T end_token;
  T* final_ids;
  int64_t steps, batch, beams;

  int64_t Index(int64_t t, int64_t b, int64_t k) const { return (t * batch + b) * beams + k; }

  absl::Status Column(int64_t b, int64_t k) const {
    const auto end = Comparable(end_token);
    int64_t length = 0;
    if (!ToWhole(max_seq_len[b], length)) {
      return Invalid("max_seq_len[", b, "]: ", Comparable(max_seq_len[b]),
                     " is not a whole finite number");
    }
    length = std::clamp<int64_t>(length, 0, steps);
    for (int64_t t = length; t < steps; ++t) {
      final_ids[Index(t, b, k)] = end_token;
    }
    int64_t at = k;
    for (int64_t t = length - 1; t >= 0; --t) {
      final_ids[Index(t, b, k)] = step_ids[Index(t, b, at)];
      if (t == 0) {
        break;
      }
      const T parent = parent_ids[Index(t, b, at)];
      int64_t next = 0;
      if (!ToWhole(parent, next)) {
        return Invalid("parent_ids[", t, ",", b, ",", at, "]: ", Comparable(parent),
                       " is not a whole finite number");
      }
      if (next < 0 || next >= beams) {
        return Invalid("parent_ids[", t, ",", b, ",", at, "]: ", Comparable(parent),
                       " is outside [0, ", beams, ")");
      }
      at = next;
    }
    bool finished = false;
    for (int64_t t = 0; t < length; ++t) {
      T& id = final_ids[Index(t, b, k)];
      if (finished) {
        id = end_token;
      }
      finished = finished || Comparable(id) == end;
    }
    return absl::OkStatus();
  }
};

struct GatherTreeOp {
  using Options = NoOptions;
  static absl::StatusOr<Options> Parse(const Node&) { return Options{}; }

  static absl::Status Shapes(const Options&, absl::Span<const InputInfo> inputs,
                             absl::Span<ValueInfo> outputs) {
    static constexpr absl::string_view kNames[] = {"step_ids", "parent_ids", "max_seq_len",
                                                   "end_token"};
    static constexpr int kRanks[] = {3, 3, 1, 0};
    BW_RETURN_IF_ERROR(ExpectCounts(inputs, 4, 4, outputs));
    if (!IsFloat(inputs[0].dtype) && !IsInteger(inputs[0].dtype)) {
      return Invalid("step_ids: element type ", Name(inputs[0].dtype),
                     " is not supported, only integers and floats");
    }
    for (size_t i = 0; i < 4; ++i) {
      if (inputs[i].dtype != inputs[0].dtype) {
        return Invalid(kNames[i], ": element type ", Name(inputs[i].dtype),
                       " is not that of step_ids, ", Name(inputs[0].dtype));
      }
      BW_RETURN_IF_ERROR(ExpectRank(inputs[i], kNames[i], kRanks[i]));
    }
    Shape dims(3, PartialShape::kDynamic);
    const auto merge = [&](size_t input, int axis, int out_axis) -> absl::Status {
      if (!inputs[input].shape.has_rank()) {
        return absl::OkStatus();
      }
      int64_t& dim = dims[static_cast<size_t>(out_axis)];
      const absl::StatusOr<int64_t> merged = MergeExtents(dim, inputs[input].shape.dim(axis));
      if (!merged.ok()) {
        return Invalid(kNames[input], ": shape ", inputs[input].shape.ToString(),
                       " does not match step_ids of shape ", inputs[0].shape.ToString());
      }
      dim = *merged;
      return absl::OkStatus();
    };
    for (int axis = 0; axis < 3; ++axis) {
      BW_RETURN_IF_ERROR(merge(0, axis, axis));
      BW_RETURN_IF_ERROR(merge(1, axis, axis));
    }
    BW_RETURN_IF_ERROR(merge(2, 0, 1));
    outputs[0].dtype = inputs[0].dtype;
    outputs[0].shape = PartialShape(std::move(dims));
    return absl::OkStatus();
  }

  static absl::Status Compute(const Options&, const ExecutionContext& context,
                              absl::Span<const Tensor* const> inputs, absl::Span<Tensor> outputs) {
    return VisitDType(inputs[0]->dtype(), [&](auto type) -> absl::Status {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, bool>) {
        const Tree<T> tree{inputs[0]->data<T>(),
                           inputs[1]->data<T>(),
                           inputs[2]->data<T>(),
                           *inputs[3]->data<T>(),
                           outputs[0].mutable_data<T>(),
                           inputs[0]->dim(0),
                           inputs[0]->dim(1),
                           inputs[0]->dim(2)};
        // Of several bad columns the first is reported, whichever thread met its own first.
        const int64_t columns = tree.batch * tree.beams;
        std::atomic<int64_t> bad{columns};
        ParallelFor(context.num_threads, columns, 8 * columns * tree.steps, [&](int64_t column) {
          if (tree.Column(column / tree.beams, column % tree.beams).ok()) {
            return;
          }
          int64_t seen = bad.load();
          while (column < seen && !bad.compare_exchange_weak(seen, column)) {
          }
        });
        return bad < columns ? tree.Column(bad / tree.beams, bad % tree.beams) : absl::OkStatus();
      }
      return absl::OkStatus();
    });
  }
};

}  // namespace

constinit const OperatorCode kGatherTree = CodeOf<GatherTreeOp>(&ExtentRows);

}  // namespace beamwright::ops
