#include "engine/search/frames/transducer_candidates.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "engine/search/frames/log_add.h"

namespace beamwright::search {

void TransducerCandidates::Merge() {
  if (options_->recombine == Recombine::kNone) {
    return;
  }
  std::sort(list_.begin(), list_.end(),
            [](const TransducerCandidate& a, const TransducerCandidate& b) {
              return std::tie(a.frame, a.key.node, a.key.label, b.mass, a.number) <
                     std::tie(b.frame, b.key.node, b.key.label, a.mass, b.number);
            });
  size_t kept = 0;
  for (size_t i = 0; i < list_.size(); ++i) {
    if (kept == 0 || !SameGroup(list_[kept - 1], list_[i])) {
      list_[kept++] = list_[i];
      continue;
    }
    TransducerCandidate& first = list_[kept - 1];
    const double mass = options_->recombine == Recombine::kMax ? std::max(first.mass, list_[i].mass)
                                                               : LogAdd(first.mass, list_[i].mass);
    if (list_[i].best > first.best) {
      first = list_[i];
    }
    first.mass = mass;
  }
  list_.resize(kept);
}

bool TransducerCandidates::Better(const TransducerCandidate& a,
                                  const TransducerCandidate& b) const {
  if (a.rank != b.rank) {
    return a.rank > b.rank;
  }
  if (a.key != b.key) {
    return histories_->OrderedBefore(a.key, b.key);
  }
  return a.frame != b.frame ? a.frame > b.frame : a.number < b.number;
}

void TransducerCandidates::Prune(int64_t frame) {
  const auto better = [this](const TransducerCandidate& a, const TransducerCandidate& b) {
    return Better(a, b);
  };
  const auto size = static_cast<size_t>(options_->beam_size);
  // In alignment order, and in greedy search, each competes with all others.
  const bool frames_count = !options_->alignment_length_synchronous && size > 1;
  const auto ahead = [&](const TransducerCandidate& candidate) {
    return frames_count ? static_cast<size_t>(candidate.frame - frame) : 0;
  };
  const bool all_alike = std::all_of(
      list_.begin(), list_.end(),
      [&](const TransducerCandidate& candidate) { return ahead(candidate) == ahead(list_[0]); });
  if (all_alike && list_.size() > size) {
    std::nth_element(list_.begin(), list_.begin() + options_->beam_size, list_.end(), better);
    list_.resize(size);
  }
  std::sort(list_.begin(), list_.end(), better);
  num_kept_.assign(static_cast<size_t>(options_->longest_duration()) + 1, 0);
  size_t kept = 0;
  for (const TransducerCandidate& candidate : list_) {
    const auto first = static_cast<std::ptrdiff_t>(ahead(candidate));
    if (std::accumulate(num_kept_.begin() + first, num_kept_.end(), 0) < options_->beam_size) {
      ++num_kept_[static_cast<size_t>(first)];
      list_[kept++] = candidate;
    }
  }
  list_.resize(kept);
}

}  // namespace beamwright::search
