// A step (Advance):
//
// 1. The candidates of each row are checked: ordered, in the vocabulary, no log-probability
//    above 0.
// 2. The strategy of this step takes the pairs that live on and those that finish (Choose).
//    Pairs that complete a stop string leave the living.
// 3. The history gets the living pairs as the next rows, and finished ones enter their n-best
//    list (AddStep).
// 4. At the longest length the rows that are left are cut, and enter as well (CutRows).
// 5. Each list says whether anything that is still to come may change it (UpdateLists). The
//    search ends when nothing may.
// 6. The rules of the next step's rows are written (PrepareStep).
//
// With alternatives there is a list for each group of rows, else one for all.
#include "engine/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::search {
namespace {

absl::Status CheckCandidates(const RowCandidates& row, bool drawn, int vocabulary_size) {
  const absl::Span<const float> ranks = row.rank_scores.empty() ? row.log_probs : row.rank_scores;
  if (row.tokens.size() != row.log_probs.size() || row.tokens.size() != ranks.size()) {
    return Invalid(row.tokens.size(), " tokens but ", row.log_probs.size(),
                   " log-probabilities and ", ranks.size(), " rank scores");
  }
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    const int32_t token = row.tokens[i];
    const float log_prob = row.log_probs[i];
    if (token < 0 || token >= vocabulary_size) {
      return Invalid("candidate ", i, " is token ", token, ", must be in [0, ", vocabulary_size,
                     ")");
    }
    if (!(log_prob <= kRoundedUp) || std::isnan(ranks[i])) {
      return Invalid("the log-probability of token ", token, " is ", log_prob,
                     ", must be a number not above 0");
    }
    if (!drawn && i > 0 &&
        (ranks[i] > ranks[i - 1] || (ranks[i] == ranks[i - 1] && token <= row.tokens[i - 1]))) {
      return Invalid("candidate ", i, " (token ", token, ", ", ranks[i],
                     ") does not come after candidate ", i - 1, " (token ", row.tokens[i - 1], ", ",
                     ranks[i - 1], ") in best-first order");
    }
  }
  for (size_t i = 0; i < row.watched.size(); ++i) {
    if (!(row.watched[i] <= kRoundedUp)) {
      return Invalid("the log-probability of watched token ", i, " is ", row.watched[i],
                     ", must be a number not above 0");
    }
  }
  return absl::OkStatus();
}

int NumLists(const SearchOptions& options) {
  return std::max(1, options.constraints.num_alternatives);
}

}  // namespace

absl::StatusOr<BeamSearch> BeamSearch::Create(const SearchOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options));
  return BeamSearch(options);
}

BeamSearch::BeamSearch(const SearchOptions& options)
    : options_(options),
      pipeline_(options),
      scores_(options, GainsOf(options)),
      history_(options.beam_size + options.n_best,
               static_cast<int>(options.constraints.prefix.size()) + options.max_length,
               static_cast<int>(options.scorers.size()) + options.num_members),
      coverage_(options.coverage_penalty),
      strategies_(options),
      tokens_({options.begin_token}),
      parents_({0}),
      rows_(1) {
  // The pipeline has made processors of these; each waiting source of a call would hold a copy.
  options_.processors.suppressed_sequences = {};
  options_.constraints.hotwords = {};
  std::vector<int32_t>& ends = options_.end_tokens;
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const int num_lists = NumLists(options);
  for (int i = 0; i < num_lists; ++i) {
    const int capacity = num_lists == 1 ? options.n_best : 1;
    lists_.push_back(
        {NBestList(capacity, options.beam_size + i), options.beam_size / num_lists, 0, false, {}});
  }
  const size_t beam_size = static_cast<size_t>(options.beam_size);
  tokens_.reserve(beam_size);
  parents_.reserve(beam_size);
  rows_.reserve(beam_size);
  choice_.living.reserve(beam_size);
  choice_.finishing.reserve(beam_size);
  choice_.best_ends.resize(lists_.size());
  if (options.trace > 0) {
    trace_ = std::make_unique<SearchTrace>(options);
  }
  PrepareStep();
}

// What is added to a log-probability is at most 0 with a weight above 0, and with one below 0
// bounded by kLeastSubtracted.
Gains BeamSearch::GainsOf(const SearchOptions& options) const {
  Gains gains = {pipeline_.gives_rewards(), pipeline_.max_gain()};
  for (const ScorerWeight& scorer : options.scorers) {
    if (scorer.weight < 0) {
      gains.any = true;
      gains.most += static_cast<double>(scorer.weight) * static_cast<double>(kLeastSubtracted);
    }
  }
  return gains;
}

int BeamSearch::candidates_per_row() const {
  const int wanted = strategies_.At(num_generated()).candidates_per_row(options_);
  return std::min(std::max(wanted, options_.num_top_tokens), options_.vocabulary_size);
}

absl::Span<const int32_t> BeamSearch::known_tokens(int /*row*/) const {
  // One row reads the prefix.
  return absl::MakeConstSpan(options_.constraints.prefix)
      .subspan(static_cast<size_t>(history_.num_steps()));
}

void BeamSearch::PrepareStep() {
  const int generated = num_generated();
  rules_ = pipeline_.MakeRules(std::max(generated, 0), /*plain=*/generated < 0);
  for (LiveRow& row : rows_) {
    row.watched.clear();
  }
  const Step step(options_, pipeline_, absl::MakeSpan(rows_), history_.num_steps());
  strategies_.At(generated).Prepare(step, rules_);
  for (size_t row = 0; row < rules_.size(); ++row) {
    rules_[row].watched = rows_[row].watched;
  }
}

absl::Status BeamSearch::CheckRows(absl::Span<const RowCandidates> rows) const {
  const int step = history_.num_steps();
  if (rows.size() != tokens_.size()) {
    return Invalid("step ", step, ": candidates of ", rows.size(), " rows, must be of ",
                   tokens_.size());
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    absl::Status status = CheckCandidates(rows[row], rules_[row].draw.kind == DrawKind::kSample,
                                          options_.vocabulary_size);
    if (status.ok() && rows[row].watched.size() != rules_[row].watched.size()) {
      status = Invalid(rows[row].watched.size(), " watched tokens, must be ",
                       rules_[row].watched.size());
    }
    if (status.ok()) {
      status = CheckParts(rows[row], options_);
    }
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("step ", step, ", row ", row));
    }
  }
  return absl::OkStatus();
}

absl::Status BeamSearch::Advance(absl::Span<const RowCandidates> rows) {
  if (done_) {
    return absl::FailedPreconditionError("the search is done");
  }
  // 1.
  BW_RETURN_IF_ERROR(CheckRows(rows));
  BW_RETURN_IF_ERROR(
      Annotate(coverage_.AddStep(parents_, rows), absl::StrCat("step ", history_.num_steps())));
  // 2.
  if (absl::Status status = Choose(rows); !status.ok()) {
    End();
    return status;
  }
  // 3.
  RecordTopTokens(rows);
  AddStep();
  if (choice_.living.empty() && num_finished_ == 0) {
    return NothingLeft("no live hypothesis has a token of positive probability left",
                       BarringOptions());
  }
  pipeline_.Advance(parents_, tokens_);
  // 4.
  if (num_generated() == options_.max_length) {
    return CutRows();
  }
  // 5.
  UpdateLists();
  // 6.
  if (!done_) {
    PrepareStep();
  }
  return absl::OkStatus();
}

absl::Status BeamSearch::Choose(absl::Span<const RowCandidates> rows) {
  choice_.Clear();
  Step step(options_, pipeline_, absl::MakeSpan(rows_), history_.num_steps(), trace_.get());
  step.SetCandidates(rows);
  if (trace_ != nullptr) {
    StartTrace();
  }
  BW_RETURN_IF_ERROR(strategies_.At(num_generated()).Choose(step, choice_));
  if (trace_ != nullptr) {
    EndTrace(step);
  }
  if (options_.stop_strings != nullptr) {
    EndAtStopStrings();
  }
  return absl::OkStatus();
}

void BeamSearch::EndAtStopStrings() {
  std::vector<Pair>& living = choice_.living;
  size_t kept = 0;
  int32_t group = -1;  // of the pair before
  for (const Pair& pair : living) {
    if (!pipeline_.Stops(pair.parent, pair.token)) {
      living[kept++] = pair;
      group = pair.group;
      continue;
    }
    if (pair.group != group && !choice_.best_ends.empty()) {
      // The first of its group: no end token's pair ranks above it, or the list knows already.
      choice_.best_ends[lists_.size() == 1 ? 0 : static_cast<size_t>(pair.group)] = true;
    }
    group = pair.group;
    if (trace_ != nullptr) {
      trace_->TakeRow(trace_->NumberOf(pair));
    }
    choice_.stopping.push_back(pair);
  }
  living.resize(kept);
}

void BeamSearch::RecordTopTokens(absl::Span<const RowCandidates> rows) {
  const size_t wanted = static_cast<size_t>(options_.num_top_tokens);
  if (wanted == 0) {
    return;
  }
  top_starts_.push_back(top_tokens_.size());
  for (const RowCandidates& row : rows) {
    for (size_t i = 0; i < wanted; ++i) {
      top_tokens_.push_back(i < row.tokens.size() && row.log_probs[i] != kImpossible
                                ? TopToken{row.tokens[i], std::min(row.log_probs[i], 0.0f)}
                                : TopToken{-1, 0});
    }
  }
}

void BeamSearch::AddStep() {
  history_.AddStep();
  tokens_.clear();
  parents_.clear();
  rows_.resize(choice_.living.size());
  for (size_t r = 0; r < choice_.living.size(); ++r) {
    const Pair& pair = choice_.living[r];
    history_.Set(static_cast<int>(r), pair.parent, pair.token, pair.log_prob, pair.parts);
    tokens_.push_back(pair.token);
    parents_.push_back(pair.parent);
    LiveRow& row = rows_[r];
    row.sum = pair.sum;
    row.reward = pair.reward;
    row.fused = pair.fused;
    row.rank = pair.rank;
    row.group = pair.group;
    row.sample = std::max(pair.group, 0);
  }
  if (num_generated() <= 0) {  // the step read the prefix
    prefix_sum_ += static_cast<double>(choice_.living[0].log_prob);
  }
  // A forced end is the limit's doing.
  const bool forced =
      num_generated() == options_.max_length && options_.at_limit == AtLimit::kForceEnd;
  for (const Pair& pair : choice_.finishing) {
    ++num_finished_;
    Enter(pair, forced ? FinishReason::kLength : FinishReason::kEos, -1);
  }
  for (const Pair& pair : choice_.stopping) {
    ++num_finished_;
    Enter(pair, FinishReason::kStop, -1);
  }
}

// A hypothesis that ends with the pair, which the last step is about.
ListEntry BeamSearch::MakeEntry(const Pair& pair, FinishReason reason) const {
  ListEntry entry;
  entry.coverage = coverage_.Penalty(pair.parent);
  entry.score =
      scores_.Normalise(pair.sum + pair.reward + pair.fused, num_generated()) + entry.coverage;
  entry.key = entry.score;
  if (options_.sampling.kind == Sampling::kRandom) {
    entry.key = -pair.group;
  } else if (options_.sampling.kind == Sampling::kWithoutReplacement) {
    entry.key = entry.score = pair.rank;
  }
  entry.sum = pair.sum;
  entry.reward = pair.reward;
  entry.reason = reason;
  if (trace_ != nullptr) {
    entry.traced = trace_->NumberOf(pair);
    trace_->SetScore(entry.traced, entry.score);
  }
  return entry;
}

void BeamSearch::Enter(const Pair& pair, FinishReason reason, int live_slot) {
  const ListEntry entry = MakeEntry(pair, reason);
  List& list = ListOf(options_.sampling.kind == Sampling::kNone ? pair.group : 0);
  list.num_finished += live_slot < 0 ? 1 : 0;
  if (live_slot < 0 && options_.stop == StopMode::kHeuristic) {
    std::vector<double>& scores = list.best_finished;  // a heap
    scores.push_back(entry.score);
    std::push_heap(scores.begin(), scores.end(), std::greater<>());
    if (scores.size() > static_cast<size_t>(list.beam_size)) {
      std::pop_heap(scores.begin(), scores.end(), std::greater<>());
      scores.pop_back();
    }
  }
  Fate fate = Fate::kScoreThreshold;
  if (entry.score >= options_.score_threshold) {
    fate = list.best.Enter(pair, entry, live_slot, history_) ? Fate::kAnswer : Fate::kNotListed;
  }
  if (trace_ != nullptr) {
    trace_->SetFate(entry.traced, fate);
  }
}

absl::Status BeamSearch::CutRows() {
  std::string unmet;
  bool any = num_finished_ > 0;
  for (size_t row = 0; row < choice_.living.size(); ++row) {
    if (pipeline_.MayBeCut(static_cast<int>(row))) {
      Enter(choice_.living[row], FinishReason::kLength, static_cast<int>(row));
      any = true;
      continue;
    }
    if (unmet.empty()) {
      unmet = pipeline_.CuttingOptions(static_cast<int>(row));
    }
    if (trace_ != nullptr) {
      trace_->SetFate(trace_->NumberOf(choice_.living[row]), Fate::kIncomplete);
    }
  }
  if (!any) {
    return NothingLeft(absl::StrCat("no hypothesis is complete within the maximum length of ",
                                    options_.max_length, " tokens"),
                       unmet);
  }
  End();
  return absl::OkStatus();
}

std::string BeamSearch::BarringOptions() const {
  std::string names = pipeline_.MaskingOptions();
  if (!options_.scorers.empty()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", "fusion");
  }
  return names;
}

absl::Status BeamSearch::NothingLeft(absl::string_view what, const std::string& names) {
  const int step = history_.num_steps() - 1;
  End();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step, ": ", what, names.empty() ? "" : absl::StrCat(" under ", names),
                   ", and none has finished"));
}

// A list is done when it has no rows left, or when the best total of its rows can come to no score
// that would change it. Rows of a group whose list is done run no more.
void BeamSearch::UpdateLists() {
  bool all_done = true;
  for (size_t l = 0; l < lists_.size(); ++l) {
    List& list = lists_[l];
    bool has_rows = false;
    double best = -std::numeric_limits<double>::infinity();
    for (const LiveRow& row : rows_) {
      if (lists_.size() == 1 || row.group < 0 || static_cast<size_t>(row.group) == l) {
        has_rows = true;
        best = std::max(best, options_.sampling.kind == Sampling::kWithoutReplacement
                                  ? row.rank
                                  : row.sum + row.reward + row.fused);
      }
    }
    list.done = list.done || !has_rows || MayStop(l, best);
    all_done = all_done && list.done;
  }
  if (all_done) {
    End();
  }
  for (LiveRow& row : rows_) {
    row.done = lists_.size() > 1 && row.group >= 0 && ListOf(row.group).done;
  }
}

// best_total: of the list's rows. Stop modes as docs/decoding.md, 'Stopping', has them.
bool BeamSearch::MayStop(size_t index, double best_total) const {
  const List& list = lists_[index];
  if (options_.sampling.kind == Sampling::kRandom) {
    return false;
  }
  switch (options_.stop) {
    case StopMode::kSafe: {
      const bool is_full = list.best.full();
      const bool may_give_up = list.num_finished > 0 && std::isfinite(options_.score_threshold);
      if (!is_full && !may_give_up) {
        return false;
      }
      // On equal score the list's hypothesis wins: it is shorter than all that is still to come.
      const double bound = options_.sampling.kind == Sampling::kWithoutReplacement
                               ? best_total
                               : scores_.Bound(best_total, num_generated());
      return (may_give_up && bound < options_.score_threshold) ||
             (is_full && list.best.entries().back().score >= bound);
    }
    case StopMode::kFirst:
      return choice_.best_ends[index];
    case StopMode::kCount:
      return static_cast<double>(list.num_finished) >=
             std::max(1.0, std::round(list.beam_size * options_.patience));
    case StopMode::kHeuristic:
      return list.num_finished >= list.beam_size &&
             list.best_finished.front() >= scores_.Normalise(best_total, num_generated());
    case StopMode::kNever:
      break;
  }
  return false;
}

void BeamSearch::End() {
  done_ = true;
  if (trace_ != nullptr) {
    FinishTrace();
  }
  tokens_.clear();
  parents_.clear();
  rows_.clear();
  rules_ = {};
}

}  // namespace beamwright::search
