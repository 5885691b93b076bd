// Requests whose sources wait to be encoded, and the choice of those that are encoded in one run.
//
// TakeGroup takes the first request and others that fit it:
//
// 1. OfOneShape, if lengths cannot be mixed: those with the same shape.
// 2. OfNearLength, if padding is proven not to change results: sources of different lengths are
//    padded to the longest, and padding is wasted work. The waiting sources are sorted by length;
//    from the first request's place the group grows to whichever neighbour needs less padding,
//    while padding is at most 1 / kFilledShare of all and the positions fit.
//
// The first request is always in the group, so that none waits for ever. A stable order among
// equals lets those who have waited longest come first.
#include "engine/queue/encode_queue.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "engine/model/parts.h"

namespace beamwright::engine {
namespace {

// Most sources encoded in one run, so that the activations stay bounded.
constexpr size_t kMaxGroup = 64;
// Most waiting requests among which those of the nearest length are chosen.
constexpr size_t kMostLooks = 4 * kMaxGroup;
// Padding is at most this part of all positions.
constexpr int64_t kFilledShare = 4;

// Whether two sources have the same shape, but for axis `other_than` of the source itself.
bool SameShape(const Request& a, const Request& b, int other_than = -1) {
  const ops::Shape& one_shape = a.source.encoder_input->shape();
  const ops::Shape& other_shape = b.source.encoder_input->shape();
  bool same = one_shape.size() == other_shape.size();
  for (size_t axis = 0; same && axis < one_shape.size(); ++axis) {
    same = static_cast<int>(axis) == other_than || one_shape[axis] == other_shape[axis];
  }
  return same && std::equal(a.source.further_inputs.begin(), a.source.further_inputs.end(),
                            b.source.further_inputs.begin(), b.source.further_inputs.end(),
                            [](const ops::Tensor& one, const ops::Tensor& other) {
                              return one.shape() == other.shape();
                            });
}

}  // namespace

int64_t EncodePositions(const Request& request) {
  return std::max<int64_t>(request.source.source_length, 1);
}

void EncodeQueue::Add(Requests requests) {
  std::move(requests.begin(), requests.end(), std::back_inserter(waiting_));
}

void EncodeQueue::DropDead(absl::Time now) {
  const auto is_dead = [now](const std::unique_ptr<Request>& request) {
    const absl::Status status = request->CheckAlive(now);
    if (!status.ok()) {
      request->Fail(status);
    }
    return !status.ok();
  };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_dead), waiting_.end());
}

void EncodeQueue::FailAll(const absl::Status& why) {
  for (const auto& request : waiting_) {
    request->Fail(why);
  }
  waiting_.clear();
}

void EncodeQueue::MoveOthers(const DecodeModel& model, EncodeQueue& rest) {
  const auto others = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&model](const std::unique_ptr<Request>& request) { return request->model.get() == &model; });
  std::move(others, waiting_.end(), std::back_inserter(rest.waiting_));
  waiting_.erase(others, waiting_.end());
}

EncodeQueue::Requests EncodeQueue::TakeFront(int rows, int64_t bytes, bool at_least_one) {
  Requests taken;
  while (!waiting_.empty()) {
    const Request& first = *waiting_.front();
    rows -= first.beam_size;
    bytes -= first.price_bytes;
    if ((rows < 0 || bytes < 0) && !(at_least_one && taken.empty())) {
      break;
    }
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

// The first request, and those after it with the same shape.
std::vector<size_t> EncodeQueue::OfOneShape(size_t most) const {
  const Request& first = *waiting_.front();
  std::vector<size_t> chosen = {0};
  for (size_t i = 1; i < waiting_.size() && chosen.size() < most; ++i) {
    const Request& other = *waiting_[i];
    if (other.model == first.model && !other.encodes_alone && SameShape(other, first)) {
      chosen.push_back(i);
    }
  }
  return chosen;
}

// The first request, and those after it with the nearest lengths and otherwise the same shape, the
// longest first. The one that is added next needs the fewest positions of padding.
std::vector<size_t> EncodeQueue::OfNearLength(size_t most, int64_t positions) const {
  const Request& first = *waiting_.front();
  const int axis = first.model->parts().encoder()->length_axis;
  const auto length_of = [&](size_t i) { return waiting_[i]->source.encoder_input->dim(axis); };
  const int64_t own = length_of(0);
  if (own == 0) {
    return OfOneShape(most);
  }
  std::vector<size_t> sorted = {0};
  for (size_t i = 1; i < waiting_.size() && sorted.size() < kMostLooks; ++i) {
    const Request& other = *waiting_[i];
    if (other.model == first.model && !other.encodes_alone && SameShape(other, first, axis) &&
        length_of(i) > 0) {
      sorted.push_back(i);
    }
  }
  // Of equal ones those who wait longest stand nearest to the first.
  std::sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) {
    return length_of(a) != length_of(b) ? length_of(a) > length_of(b)
           : length_of(a) > own         ? a > b
                                        : a < b;
  });
  auto begin =
      static_cast<size_t>(std::find(sorted.begin(), sorted.end(), size_t{0}) - sorted.begin());
  size_t end = begin + 1;
  int64_t filled = 0;  // positions behind the ends of their sources
  while (end - begin < most) {
    const auto size = static_cast<int64_t>(end - begin);
    const int64_t longest = length_of(sorted[begin]);
    // Positions to fill up if the next longer one, or the next shorter one, comes along; nothing if
    // it may not.
    const auto with = [&](int64_t new_longest, int64_t more) -> std::optional<int64_t> {
      const int64_t all = (size + 1) * new_longest;
      const bool fits = all <= positions && (filled + more) * kFilledShare <= all;
      return fits ? std::optional(more) : std::nullopt;
    };
    std::optional<int64_t> longer;
    if (begin > 0) {
      const int64_t length = length_of(sorted[begin - 1]);
      longer = with(length, (length - longest) * size);
    }
    std::optional<int64_t> shorter;
    if (end < sorted.size()) {
      shorter = with(longest, longest - length_of(sorted[end]));
    }
    if (!longer.has_value() && !shorter.has_value()) {
      break;
    }
    const bool takes_shorter = !longer.has_value() || (shorter.has_value() && *shorter <= *longer);
    filled += takes_shorter ? *shorter : *longer;
    begin -= takes_shorter ? 0 : 1;
    end += takes_shorter ? 1 : 0;
  }
  return {sorted.begin() + static_cast<std::ptrdiff_t>(begin),
          sorted.begin() + static_cast<std::ptrdiff_t>(end)};
}

EncodeQueue::Requests EncodeQueue::TakeGroup(int64_t positions) {
  Requests group;
  if (waiting_.empty()) {
    return group;
  }
  const Request& first = *waiting_.front();
  std::vector<size_t> chosen = {0};
  if (first.model->reads_whole_source() && first.model->encodes_together() &&
      !first.encodes_alone) {
    const auto fits = static_cast<size_t>(std::max<int64_t>(positions / EncodePositions(first), 1));
    chosen = first.model->encodes_lengths_together() ? OfNearLength(kMaxGroup, positions)
                                                     : OfOneShape(std::min(kMaxGroup, fits));
  }
  for (const size_t i : chosen) {
    group.push_back(std::move(waiting_[i]));
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), nullptr), waiting_.end());
  return group;
}

}  // namespace beamwright::engine
