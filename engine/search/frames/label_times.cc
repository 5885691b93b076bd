#include "engine/search/frames/label_times.h"

#include <algorithm>

namespace beamwright::search {

int32_t LabelTimes::Add(int32_t before, const LabelTime& time) {
  int32_t chain = 0;
  if (free_.empty()) {
    chain = static_cast<int32_t>(entries_.size());
    entries_.emplace_back();
    free_.reserve(entries_.capacity());
  } else {
    chain = free_.back();
    free_.pop_back();
  }
  Keep(before);
  at(chain) = {time, before, 1};
  return chain;
}

void LabelTimes::Drop(int32_t chain) {
  while (chain != kNone && --at(chain).num_holders == 0) {
    free_.push_back(chain);
    chain = at(chain).before;
  }
}

void LabelTimes::Append(int32_t chain, std::vector<LabelTime>& times) const {
  const auto first = static_cast<std::ptrdiff_t>(times.size());
  for (; chain != kNone; chain = entries_[static_cast<size_t>(chain)].before) {
    times.push_back(last(chain));
  }
  std::reverse(times.begin() + first, times.end());
}

}  // namespace beamwright::search
