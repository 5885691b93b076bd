// Records a search for Explain: for each step its rows and the candidates that were ranked, with
// what became of each (Fate). Besides the chosen ones, up to most_others_ candidates of each
// ranking are kept, and at most kMaxEntries in all; then the trace ends (truncated_) and the search
// goes on.
//
// A candidate's fate changes later: a kept row may end without an answer, an answer may be replaced
// by a better one. The search refers to candidates by number (NumberOf), and Finish sets the fates
// that only the end decides.
#include "engine/search/search_trace.h"

#include <algorithm>
#include <utility>

namespace beamwright::search {
namespace {

int NumOrders(const SearchOptions& options) {
  return std::max({1, options.num_groups, options.constraints.num_alternatives});
}

int OthersOfOrder(const SearchOptions& options) {
  return (options.trace + NumOrders(options) - 1) / NumOrders(options);
}

// Rows, what lives on, what finishes, and others.
int MostEntries(const SearchOptions& options) {
  return 3 * options.beam_size + OthersOfOrder(options) * NumOrders(options);
}

bool WasChosen(Fate fate) { return fate == Fate::kKept || fate == Fate::kAnswer; }

}  // namespace

SearchTrace::SearchTrace(const SearchOptions& options)
    : most_others_(OthersOfOrder(options)),
      most_entries_(MostEntries(options)),
      diversity_penalty_(options.num_groups > 1 ? options.diversity_penalty : 0),
      orders_(static_cast<size_t>(NumOrders(options))) {}

int64_t SearchTrace::MaxBytes(const SearchOptions& options) {
  const int64_t steps =
      options.max_length + static_cast<int64_t>(options.constraints.prefix.size());
  constexpr int64_t kInReply = 2;  // as a message, and as its bytes
  return std::min(kMaxEntries, steps * MostEntries(options)) * int64_t{sizeof(TracedCandidate)} *
         (1 + kInReply);
}

void SearchTrace::StartStep(std::vector<TracedRow> rows) {
  truncated_ = truncated_ || num_entries_ + most_entries_ > kMaxEntries;
  if (truncated_) {
    return;
  }
  num_entries_ += static_cast<int64_t>(rows.size());
  starts_.push_back(
      steps_.empty() ? 0 : starts_.back() + static_cast<int>(steps_.back().candidates.size()));
  steps_.push_back({.rows = std::move(rows)});
  std::fill(orders_.begin(), orders_.end(), Order());
}

void SearchTrace::Note(const Pair& pair, int order, Fate fate, absl::Span<const Pair> living) {
  if (truncated_) {
    return;
  }
  Order& own = orders_[static_cast<size_t>(order)];
  ++own.place;
  if (!WasChosen(fate) && own.others++ >= most_others_) {
    return;
  }
  const auto count = std::count_if(living.begin(), living.end(), [&](const Pair& other) {
    return other.group < order && other.token == pair.token;
  });
  Add(pair, own.place, -(diversity_penalty_ * static_cast<double>(count)), fate);
}

void SearchTrace::NoteClosed(const Pair& pair, Fate fate) {
  const size_t order = orders_.size() == 1 ? 0 : static_cast<size_t>(pair.group);
  if (!truncated_ && orders_[order].others++ < most_others_) {
    Add(pair, /*place=*/0, /*diversity=*/0, fate);
  }
}

void SearchTrace::Add(const Pair& pair, int place, double diversity, Fate fate) {
  TracedStep& step = steps_.back();
  TracedCandidate candidate = {.rank = pair.rank,
                               .diversity = diversity,
                               .row = pair.parent,
                               .token = pair.token,
                               .log_prob = pair.log_prob,
                               .rank_score = pair.rank_score,
                               .place = place,
                               .group = pair.group,
                               .fate = fate};
  if (fate == Fate::kKept) {
    candidate.next_row = static_cast<int32_t>(
        std::count_if(step.candidates.begin(), step.candidates.end(),
                      [](const TracedCandidate& other) { return other.fate == Fate::kKept; }));
  }
  std::copy_n(pair.parts.begin(), candidate.scorers.size(), candidate.scorers.begin());
  step.candidates.push_back(candidate);
  ++num_entries_;
}

bool SearchTrace::WantsMore(int order) const {
  return !truncated_ && orders_[static_cast<size_t>(order)].others < most_others_;
}

void SearchTrace::EndStep(int num_candidates) {
  if (!truncated_) {
    TracedStep& step = steps_.back();
    step.num_omitted = num_candidates - static_cast<int>(step.candidates.size());
  }
}

int SearchTrace::NumberOf(const Pair& pair) const {
  if (truncated_) {
    return kNone;
  }
  const std::vector<TracedCandidate>& candidates = steps_.back().candidates;
  const auto it =
      std::find_if(candidates.begin(), candidates.end(), [&](const TracedCandidate& candidate) {
        return candidate.row == pair.parent && candidate.token == pair.token &&
               candidate.group == pair.group && WasChosen(candidate.fate);
      });
  return it == candidates.end() ? kNone
                                : starts_.back() + static_cast<int>(it - candidates.begin());
}

TracedCandidate& SearchTrace::At(int number) {
  const auto step = std::upper_bound(starts_.begin(), starts_.end(), number) - starts_.begin() - 1;
  return steps_[static_cast<size_t>(step)]
      .candidates[static_cast<size_t>(number - starts_[static_cast<size_t>(step)])];
}

void SearchTrace::SetScore(int number, double score) {
  if (number != kNone) {
    At(number).score = score;
    At(number).ended = true;
  }
}

void SearchTrace::SetFate(int number, Fate fate) {
  if (number != kNone) {
    At(number).fate = fate;
    At(number).next_row = -1;
  }
}

void SearchTrace::TakeRow(int number) {
  if (number == kNone) {
    return;
  }
  const int row = At(number).next_row;
  for (TracedCandidate& candidate : steps_.back().candidates) {
    candidate.next_row -= candidate.next_row > row ? 1 : 0;
  }
  At(number).next_row = -1;
}

void SearchTrace::Finish(absl::Span<const int> answers) {
  for (TracedStep& step : steps_) {
    for (TracedCandidate& candidate : step.candidates) {
      if (candidate.fate == Fate::kAnswer) {
        candidate.fate = Fate::kReplaced;
      } else if (candidate.fate == Fate::kKept && &step == &steps_.back() && !truncated_) {
        candidate.fate = Fate::kStopped;
        candidate.next_row = -1;
      }
    }
  }
  for (const int number : answers) {
    SetFate(number, Fate::kAnswer);
  }
}

}  // namespace beamwright::search
