#include "engine/search/beam_strategy.h"

#include <algorithm>

namespace beamwright::search {

void BeamStrategy::Push(const Step& step, int32_t row, size_t candidate) {
  const auto r = static_cast<size_t>(row);
  const size_t size = step.candidates()[r].tokens.size();
  while (candidate < size && !step.IsOpen(r, candidate)) {
    ++candidate;
  }
  if (candidate < size) {
    cursors_.push_back({step.Rank(r, candidate), row, static_cast<int32_t>(candidate)});
    std::push_heap(cursors_.begin(), cursors_.end(), IsWorse());
  }
}

bool BeamStrategy::Pop(const Step& step, Pair& pair) {
  if (cursors_.empty()) {
    return false;
  }
  std::pop_heap(cursors_.begin(), cursors_.end(), IsWorse());
  const Cursor top = cursors_.back();
  cursors_.pop_back();
  const auto candidate = static_cast<size_t>(top.candidate);
  pair = step.MakePair(static_cast<size_t>(top.row), candidate);
  Push(step, top.row, candidate + 1);
  return true;
}

// Each row's list is in order already, so a heap of one cursor per row ranks the pairs of all.
absl::Status BeamStrategy::Choose(Step& step, Choice& choice) {
  cursors_.clear();
  for (size_t r = 0; r < step.rows().size(); ++r) {
    Push(step, static_cast<int32_t>(r), 0);
  }
  TakeBest(
      step, step.options().beam_size, 0, [&](Pair& pair) { return Pop(step, pair); }, choice);
  return absl::OkStatus();
}

}  // namespace beamwright::search
