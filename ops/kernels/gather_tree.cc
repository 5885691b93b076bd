// GatherTree: walks a beam search's tree of parents from the last step to the first and writes each
// beam's tokens in order.
//
//   step_ids, parent_ids [steps, batch, beams], max_seq_len [batch], end_token -> final_ids
//
// For each beam k of batch entry b: from step max_seq_len[b] - 1 upwards, final_ids[t, b, k] is
// step_ids[t, b, at], and `at` becomes parent_ids[t, b, at]. Steps from max_seq_len on, and
// everything after the first end token, become end tokens.
//
// 1. Compute makes blocks of batch entries, about kBlockColumns beams each, for the threads.
// 2. Block goes up step by step for all beams of the block at once (TakeStep), so that the rows of
//    a step are read in order; following one beam to the top before the next would touch a new page
//    for every element.
// 3. FillBehindEnds.
//
// A parent outside [0, beams) is an error with its place (Describe); of several the first column's
// is reported, whatever the threads did first. Ids may be floats, as the operator's definition
// allows (ToWhole).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/selection.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

// The value as a 64-bit integer; false if it is not a whole finite number. Values outside the
// 64-bit range saturate: they are out of any range that is asked for.
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

// Columns (a batch entry's beam each) that a thread takes at a time: their places in the tree stay
// in its first-level cache while it goes through whole rows of a step, which lie side by side.
// Walking up one column after another would touch a page for every element.
constexpr int64_t kBlockColumns = 1024;
// What an element takes, in multiply-adds: 1.6 ns.
constexpr int64_t kWorkOfElement = 160;

template <typename T>
struct Tree {
  const T* step_ids;
  const T* parent_ids;
  const T* max_seq_len;
  T end_token;
  T* final_ids;
  int64_t steps, batch, beams;

  // An invalid parent, at which a column's way up ended.
  struct BadParent {
    int64_t step = -1;  // -1: nowhere; steps: max_seq_len is not a number
    int64_t beam = 0;   // the beam that has the parent
    int64_t column = 0;
  };

  int64_t Index(int64_t t, int64_t b, int64_t k) const { return (t * batch + b) * beams + k; }

  // Batch entries [first, first + count). Of several bad columns the first is returned.
  BadParent Block(int64_t first, int64_t count) const {
    const int64_t columns = count * beams;
    absl::InlinedVector<int64_t, kBlockColumns> at(static_cast<size_t>(columns));
    absl::InlinedVector<int64_t, kBlockColumns> first_end(static_cast<size_t>(columns), steps);
    absl::InlinedVector<int64_t, kBlockColumns> lengths(static_cast<size_t>(count));
    BadParent bad;
    const auto note = [&](int64_t step, int64_t beam, int64_t column) {
      if (bad.step < 0 || column < bad.column) {
        bad = {step, beam, column};
      }
    };
    for (int64_t b = 0; b < count; ++b) {
      int64_t length = 0;
      if (!ToWhole(max_seq_len[first + b], length)) {
        note(steps, 0, (first + b) * beams);
      }
      lengths[static_cast<size_t>(b)] = std::clamp<int64_t>(length, 0, steps);
      std::iota(at.begin() + b * beams, at.begin() + (b + 1) * beams, int64_t{0});
    }
    for (int64_t t = steps - 1; t >= 0; --t) {
      for (int64_t b = 0; b < count; ++b) {
        const int64_t row = Index(t, first + b, 0);
        if (t >= lengths[static_cast<size_t>(b)]) {
          std::fill_n(final_ids + row, beams, end_token);
          continue;
        }
        const int64_t column = b * beams;
        const int64_t k = TakeStep(t, row, &at[static_cast<size_t>(column)],
                                   &first_end[static_cast<size_t>(column)]);
        if (k < beams) {
          note(t, at[static_cast<size_t>(column + k)], first * beams + column + k);
          lengths[static_cast<size_t>(b)] = t;  // the entry's steps below are of no use
        }
      }
    }
    if (bad.step < 0) {
      FillBehindEnds(first * beams, first_end);
    }
    return bad;
  }

  // Goes one step up for the beams of one batch entry: writes their ids and moves `at` to the
  // parents. Returns the first beam whose parent is invalid, or `beams`.
  int64_t TakeStep(int64_t t, int64_t row, int64_t* at, int64_t* first_end) const {
    const auto end = Comparable(end_token);
    for (int64_t k = 0; k < beams; ++k) {
      const T id = step_ids[row + at[k]];
      final_ids[row + k] = id;
      first_end[k] = Comparable(id) == end ? t : first_end[k];
    }
    for (int64_t k = 0; t > 0 && k < beams; ++k) {
      int64_t next = 0;
      if (!ToWhole(parent_ids[row + at[k]], next) || next < 0 || next >= beams) {
        return k;
      }
      at[k] = next;
    }
    return beams;
  }

  // Whatever follows a column's first end token is end tokens.
  void FillBehindEnds(int64_t column, absl::Span<const int64_t> first_end) const {
    const int64_t earliest = *std::min_element(first_end.begin(), first_end.end());
    for (int64_t t = earliest + 1; t < steps; ++t) {
      T* const row = final_ids + t * batch * beams + column;
      for (size_t i = 0; i < first_end.size(); ++i) {
        row[i] = t > first_end[i] ? end_token : row[i];
      }
    }
  }

  absl::Status Describe(const BadParent& bad) const {
    const int64_t b = bad.column / beams;
    if (bad.step == steps) {
      return Invalid("max_seq_len[", b, "]: ", Comparable(max_seq_len[b]),
                     " is not a whole finite number");
    }
    const T parent = parent_ids[Index(bad.step, b, bad.beam)];
    int64_t whole = 0;
    if (!ToWhole(parent, whole)) {
      return Invalid("parent_ids[", bad.step, ",", b, ",", bad.beam, "]: ", Comparable(parent),
                     " is not a whole finite number");
    }
    return Invalid("parent_ids[", bad.step, ",", b, ",", bad.beam, "]: ", Comparable(parent),
                   " is outside [0, ", beams, ")");
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
        using BadParent = typename Tree<T>::BadParent;
        if (tree.beams == 0) {
          return absl::OkStatus();
        }
        const int threads =
            SharingFor(context.num_threads, kWorkOfElement * tree.batch * tree.beams * tree.steps);
        const int64_t entries = std::max<int64_t>(
            std::min(kBlockColumns / tree.beams, CeilDiv(tree.batch, threads)), 1);
        const int64_t blocks = CeilDiv(tree.batch, entries);
        std::vector<BadParent> bad(static_cast<size_t>(blocks));
        ParallelFor(threads, blocks, [&](int64_t block) {
          const int64_t first = block * entries;
          bad[static_cast<size_t>(block)] =
              tree.Block(first, std::min(entries, tree.batch - first));
        });
        const auto found = std::find_if(bad.begin(), bad.end(),
                                        [](const BadParent& parent) { return parent.step >= 0; });
        return found == bad.end() ? absl::OkStatus() : tree.Describe(*found);
      }
      return absl::OkStatus();
    });
  }
};

}  // namespace

constinit const OperatorCode kGatherTree = CodeOf<GatherTreeOp>(&ExtentRows);

}  // namespace beamwright::ops
