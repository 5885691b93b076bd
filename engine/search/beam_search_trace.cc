// The part of BeamSearch that records in its trace what the strategies do not.
#include <algorithm>
#include <utility>

#include "engine/search/beam_search.h"

namespace beamwright::search {

void BeamSearch::StartTrace() {
  std::vector<TracedRow> rows;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const LiveRow& row = rows_[r];
    const double offset =
        pipeline_.gives_rewards() ? pipeline_.RankOffset(static_cast<int>(r)) : 0.0;
    rows.push_back({.parent = parents_[r],
                    .token = tokens_[r],
                    .sum = row.sum,
                    .reward = row.reward,
                    .fused = row.fused,
                    .offset = offset,
                    .group = std::max(row.group, 0)});
  }
  trace_->StartStep(std::move(rows));
}

// What no strategy takes, because it is not open or its alternative is complete.
void BeamSearch::EndTrace(const Step& step) {
  if (num_generated() < 0 || options_.sampling.kind == Sampling::kRandom) {
    trace_->EndStep(static_cast<int>(choice_.living.size() + choice_.finishing.size()));
    return;
  }
  int num_candidates = 0;
  for (size_t r = 0; r < step.candidates().size(); ++r) {
    const RowCandidates& row = step.candidates()[r];
    // Of the row that all groups start from each takes its own.
    const int num_takers = rows_[r].group < 0 ? options_.num_groups : 1;
    for (size_t i = 0; i < row.tokens.size(); ++i) {
      num_candidates += step.IsOpen(r, i) ? num_takers : 1;
      if (row.log_probs[i] == kImpossible || RankScore(row, i) == kImpossible) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kNoProbability);
      } else if (rows_[r].done) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kAlternativeDone);
      } else if (!step.IsOpen(r, i)) {
        trace_->NoteClosed(step.MakePair(r, i), Fate::kEndThreshold);
      }
    }
  }
  trace_->EndStep(num_candidates);
}

void BeamSearch::FinishTrace() {
  std::vector<int> answers;
  for (const List& list : lists_) {
    for (const ListEntry& entry : list.best.entries()) {
      answers.push_back(entry.traced);
    }
  }
  trace_->Finish(answers);
}

}  // namespace beamwright::search
