// Batch items that iterate on their own: their lengths, their share of the loop's inputs, and how
// their outputs come together (Loop::Items in ops/graph/graph.h). Private to loop/.
//
// `values` below are the node's inputs by the loop's input rules.
#ifndef BEAMWRIGHT_OPS_LOOP_LOOP_ITEMS_H_
#define BEAMWRIGHT_OPS_LOOP_LOOP_ITEMS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// How often a loop iterates, as its trip count, its condition and its slices say.
struct Trips {
  int64_t most = 0;        // iterations at most
  bool exact = false;      // as many as `most`
  bool unbounded = false;  // `most` is only the limit of patience
};

// inputs: the node's. parts: what slices have, -1 if nothing is sliced. condition_stays: the body's
// condition is known to be true. InvalidArgument where nothing ends the loop, or parts do not
// suffice for its trip count.
absl::StatusOr<Trips> FindTrips(const Loop& loop, absl::Span<const Tensor* const> inputs,
                                int64_t parts, bool condition_stays);

// The value of a condition; InvalidArgument, naming `what`, unless it is one boolean.
absl::StatusOr<bool> OneBool(absl::string_view what, const Tensor& value);

// Extent of the sliced axes; they must agree.
absl::StatusOr<int64_t> SlicedExtent(const Loop& loop, const std::vector<Tensor>& values);

// Number of items where they run apart: the first extent of all states and sliced inputs.
absl::StatusOr<int64_t> BatchExtent(const Loop& loop, const std::vector<Tensor>& values);

// The lengths, checked: one for each item, each in [0, SlicedExtent]. Errors name the item.
absl::StatusOr<std::vector<int64_t>> ReadLengths(const Loop& loop, const Tensor& lengths,
                                                 const std::vector<Tensor>& values);

// `values` as one item sees them where items run apart.
std::vector<Tensor> ItemOf(const Loop& loop, const std::vector<Tensor>& values, int64_t item);

// Items' values of one output, joined along a new first axis. With `axis` >= 0 (counted in an item)
// an item may be shorter than `extent` there, or have no value, and is filled with zeros behind its
// end; one at least has a value. InvalidArgument where items differ otherwise.
absl::StatusOr<Tensor> StackItems(const std::vector<Tensor>& items, int axis, int64_t extent);

// Items that the body sees only while they take part (kItemsLeave), the longest first: at any
// position those that take part are the first ones. Read forwards they leave one after the other,
// read backwards they come.
class LeavingItems {
 public:
  // Whether lengths fall, from `extent` on.
  static bool AreSorted(absl::Span<const int64_t> lengths, int64_t extent);

  // `lengths` must outlive this. starts: [items, ...] each.
  LeavingItems(absl::Span<const int64_t> lengths, std::vector<Tensor> starts)
      : lengths_(lengths), starts_(std::move(starts)) {}

  // Makes `states` those of the items that take part at `position`, and returns how many these are.
  // Positions must be looked at in order, from either end.
  int64_t Enter(int64_t position, std::vector<Tensor>& states);
  // Behind the last position: the states of all items.
  void Finish(std::vector<Tensor>& states);

 private:
  void Leave(int64_t first, const std::vector<Tensor>& states);

  absl::Span<const int64_t> lengths_;
  std::vector<Tensor> starts_;
  std::vector<Tensor> last_;  // of those that have left; made when the first does
  int64_t active_ = 0;
};

// The rows (indices of the first axis) of `value` where lengths[row] > position, elsewhere those of
// `held`, or zeros if it has no value. InvalidArgument unless `value` has one row for each length.
absl::StatusOr<Tensor> HoldRows(const Tensor& value, const Tensor& held,
                                absl::Span<const int64_t> lengths, int64_t position);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_LOOP_LOOP_ITEMS_H_
