// Loops over batches whose items iterate on their own, and the arithmetic of trip counts.
//
// 1. FindTrips: how often a loop iterates at most, from its trip count, its conditions and the
//    parts of its slices; a loop that nothing ends is an error.
// 2. SlicedExtent, BatchExtent, ReadLengths: the extents that all inputs must agree on.
// 3. Items apart (Items::kApart): ItemOf gives each item's inputs without the batch axis,
//    StackItems puts their outputs together, padded with zeros where lengths differ.
// 4. Items that are held (HoldRows): a row whose length is over keeps its state while others go on.
// 5. LeavingItems, for items sorted by length: rows whose items have ended are at the end of the
//    batch, so the batch becomes smaller (Enter, Leave) instead of computing rows that are then
//    thrown away; Finish puts the last states in order.
//
// LeavingItems by example, lengths 4, 4, 2, 1, by position:
//
//   forwards     0: 4 rows    1: 3 rows    2: 2 rows    3: 2 rows      rows leave, their states are
//   kept backwards    3: 2 rows    2: 2 rows    1: 3 rows    0: 4 rows      rows come, with their
//   start states
//
// HoldRows of the same at position 1 keeps row 3 as it was, and takes rows 0 to 2 from the step.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/base/status.h"
#include "ops/loop/sequence_driver.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

bool IsSliced(const LoopInput& rule) { return rule.kind == LoopInput::Kind::kSliced; }
bool IsCarried(const LoopInput& rule) { return rule.kind == LoopInput::Kind::kCarried; }

// Copies `rows` into the rows of `to` from `first` on.
void CopyRows(const Tensor& rows, int64_t first, Tensor& to) {
  if (rows.num_bytes() > 0) {
    const int64_t row_bytes = rows.num_bytes() / rows.dim(0);
    std::memcpy(to.mutable_bytes() + first * row_bytes, rows.bytes(),
                static_cast<size_t>(rows.num_bytes()));
  }
}

}  // namespace

absl::StatusOr<bool> OneBool(absl::string_view what, const Tensor& value) {
  if (value.dtype() != DType::kBool || value.num_elements() != 1) {
    return Invalid(what, " is ", Name(value.dtype()), ToString(value.shape()),
                   "; it must be one boolean");
  }
  return *value.data<bool>();
}

// `parts` is the number of parts of slices, -1 without slices. A trip count may be below it, never
// above; a condition that is false at the start means no iteration at all. A loop that only its
// condition ends may run up to a bound, and is marked so.
absl::StatusOr<Trips> FindTrips(const Loop& loop, absl::Span<const Tensor* const> inputs,
                                int64_t parts, bool condition_stays) {
  int64_t limit = -1;
  if (loop.trip_count_input >= 0) {
    const Tensor& count = *inputs[static_cast<size_t>(loop.trip_count_input)];
    if (count.num_elements() != 1) {
      return Invalid("the trip count is ", ToString(count.shape()), "; it must be one integer");
    }
    BW_ASSIGN_OR_RETURN(const std::vector<int64_t> value, ToInt64(count));
    limit = value[0];
    if (parts >= 0 && limit > parts) {
      return Invalid("the trip count is ", limit, ", sliced inputs have ", parts, " parts");
    }
  }
  if (loop.condition_input >= 0) {
    BW_ASSIGN_OR_RETURN(
        const bool begins,
        OneBool("the condition", *inputs[static_cast<size_t>(loop.condition_input)]));
    if (!begins) {
      return Trips{0, true};
    }
  }
  Trips trips;
  trips.exact = loop.condition_result < 0 || condition_stays;
  if (limit >= 0 || parts >= 0) {
    trips.most = limit >= 0 ? limit : parts;
  } else if (loop.trip_count_input < 0 && loop.condition_result < 0) {
    trips.most = 1;
  } else if (trips.exact) {
    return Invalid("nothing ends the loop: it has no bound, and no condition that may change");
  } else {
    trips = Trips{kMaxUnboundedIterations, false, true};
  }
  return trips;
}

absl::StatusOr<int64_t> SlicedExtent(const Loop& loop, const std::vector<Tensor>& values) {
  const int batch_axes = loop.items == Loop::Items::kApart ? 1 : 0;
  int64_t extent = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const LoopInput& rule = loop.inputs[i];
    if (!IsSliced(rule)) {
      continue;
    }
    const absl::StatusOr<int> axis = NormalizeAxis(rule.axis, values[i].rank() - batch_axes);
    if (!axis.ok()) {
      return Annotate(axis.status(), absl::StrCat("input port ", rule.external_id));
    }
    const int64_t found = values[i].dim(*axis + batch_axes);
    if (extent >= 0 && found != extent) {
      return Invalid("input port ", rule.external_id, " has ", found,
                     " parts, another sliced input has ", extent);
    }
    extent = found;
  }
  return extent;
}

absl::StatusOr<int64_t> BatchExtent(const Loop& loop, const std::vector<Tensor>& values) {
  int64_t batch = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const LoopInput& rule = loop.inputs[i];
    if (!IsSliced(rule) && !IsCarried(rule)) {
      continue;
    }
    if (values[i].rank() == 0) {
      return Invalid("input port ", rule.external_id, " is a scalar and has no batch axis");
    }
    if (batch >= 0 && values[i].dim(0) != batch) {
      return Invalid("input port ", rule.external_id, " has ", values[i].dim(0),
                     " batch items, another input ", batch);
    }
    batch = values[i].dim(0);
  }
  return batch;
}

absl::StatusOr<std::vector<int64_t>> ReadLengths(const Loop& loop, const Tensor& lengths,
                                                 const std::vector<Tensor>& values) {
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> result, ToInt64(lengths));
  for (size_t i = 0; i < values.size(); ++i) {
    const LoopInput& rule = loop.inputs[i];
    const bool has_batch = IsCarried(rule) || (IsSliced(rule) && loop.items == Loop::Items::kApart);
    if (!has_batch) {
      continue;
    }
    if (lengths.rank() != 1 || values[i].rank() == 0 || values[i].dim(0) != lengths.dim(0)) {
      return Invalid("lengths are ", ToString(lengths.shape()), "; input port ", rule.external_id,
                     " is ", ToString(values[i].shape()), ", with the items on its first axis");
    }
  }
  BW_ASSIGN_OR_RETURN(const int64_t extent, SlicedExtent(loop, values));
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] < 0 || result[i] > extent) {
      return Invalid("lengths[", i, "]: ", result[i], " is outside [0, ", extent, "]");
    }
  }
  return result;
}

std::vector<Tensor> ItemOf(const Loop& loop, const std::vector<Tensor>& values, int64_t item) {
  std::vector<Tensor> result = values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsSliced(loop.inputs[i]) || IsCarried(loop.inputs[i])) {
      const Shape& shape = values[i].shape();
      result[i] = values[i].Rows(item, item + 1).Reshaped(Shape(shape.begin() + 1, shape.end()));
    }
  }
  return result;
}

// Items that ran apart on a new first axis. Along `axis` they may differ, up to `extent`; what is
// missing there is zero.
absl::StatusOr<Tensor> StackItems(const std::vector<Tensor>& items, int axis, int64_t extent) {
  const Tensor* first = nullptr;
  for (const Tensor& item : items) {
    first = first == nullptr && item.has_value() ? &item : first;
  }
  BW_CHECK(first != nullptr);
  const auto whole = [&](const Tensor& item) {
    Shape shape = item.shape();
    if (axis >= 0) {
      shape[static_cast<size_t>(axis)] = extent;
    }
    return shape;
  };
  Shape shape = whole(*first);
  shape.insert(shape.begin(), static_cast<int64_t>(items.size()));
  BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(shape));
  if (elements > MaxTensorBytes() / SizeOf(first->dtype())) {
    return TooManyParts(static_cast<int64_t>(items.size()), whole(*first));
  }
  Tensor result = Tensor::Zeros(first->dtype(), shape);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].has_value()) {
      continue;
    }
    if (whole(items[i]) != whole(*first)) {
      return Invalid("item ", i, " has ", ToString(items[i].shape()), ", another one ",
                     ToString(first->shape()));
    }
    const auto at = static_cast<int64_t>(i);
    Tensor row = result.Rows(at, at + 1).Reshaped(whole(*first));
    if (axis < 0) {
      std::copy_n(items[i].bytes(), items[i].num_bytes(), row.mutable_bytes());
    } else {
      CopyToFront(items[i], axis, row);
    }
  }
  return result;
}

// Falling lengths, of which the first is the whole extent: some row takes part at every position.
bool LeavingItems::AreSorted(absl::Span<const int64_t> lengths, int64_t extent) {
  return !lengths.empty() && lengths.front() == extent &&
         std::is_sorted(lengths.rbegin(), lengths.rend());
}

// Keeps the last states of the rows from `first` on, which have ended.
void LeavingItems::Leave(int64_t first, const std::vector<Tensor>& states) {
  if (last_.empty()) {
    for (const Tensor& start : starts_) {
      Tensor& last = last_.emplace_back(start.dtype(), start.shape());
      CopyRows(start, 0, last);
    }
  }
  for (size_t i = 0; i < states.size(); ++i) {
    CopyRows(states[i].Rows(first, active_), first, last_[i]);
  }
}

// How many rows take part at `position`. Going forwards rows leave at the end of the batch; going
// backwards the shorter ones join there, with the states that they start with.
int64_t LeavingItems::Enter(int64_t position, std::vector<Tensor>& states) {
  const auto ended = std::partition_point(lengths_.begin(), lengths_.end(),
                                          [position](int64_t length) { return length > position; });
  const int64_t active = ended - lengths_.begin();
  if (active < active_) {
    Leave(active, states);
  }
  for (size_t i = 0; i < states.size() && active != active_; ++i) {
    if (active < active_ || active_ == 0) {
      states[i] = (active < active_ ? states[i] : starts_[i]).Rows(0, active);
      continue;
    }
    Shape shape = starts_[i].shape();
    shape[0] = active;
    Tensor both(starts_[i].dtype(), std::move(shape));
    CopyRows(states[i], 0, both);
    CopyRows(starts_[i].Rows(active_, active), active_, both);
    states[i] = std::move(both);
  }
  active_ = active;
  return active;
}

void LeavingItems::Finish(std::vector<Tensor>& states) {
  if (active_ < static_cast<int64_t>(lengths_.size())) {
    Leave(0, states);
    states = std::move(last_);
  }
}

// A copy is made only where some rows are held and others are not.
absl::StatusOr<Tensor> HoldRows(const Tensor& value, const Tensor& held,
                                absl::Span<const int64_t> lengths, int64_t position) {
  const auto rows = static_cast<int64_t>(lengths.size());
  if (value.rank() == 0 || value.dim(0) != rows) {
    return Invalid("is ", ToString(value.shape()),
                   "; its first axis must have one row for each of ", rows, " lengths");
  }
  const auto is_active = [&](int64_t row) { return position < lengths[static_cast<size_t>(row)]; };
  int64_t active = 0;
  for (int64_t row = 0; row < rows; ++row) {
    active += is_active(row) ? 1 : 0;
  }
  if (active == rows) {
    return value;
  }
  if (active == 0 && held.has_value()) {
    return held;
  }
  Tensor result = Tensor::Zeros(value.dtype(), value.shape());
  const int64_t bytes = value.num_bytes() / rows;
  for (int64_t row = 0; bytes > 0 && row < rows; ++row) {
    const Tensor& source = is_active(row) ? value : held;
    if (source.has_value()) {
      std::memcpy(result.mutable_bytes() + row * bytes, source.bytes() + row * bytes,
                  static_cast<size_t>(bytes));
    }
  }
  return result;
}

}  // namespace beamwright::ops
