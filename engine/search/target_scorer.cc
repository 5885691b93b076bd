// Scores given targets, as a search without choices. It is stepped like a search (RowSearch), by
// the same drivers: a row reads the target's tokens, and the token's log-probability is the one
// that is watched.
//
// 1. The first step has one row for all targets: they begin with the same token. From then on each
//    target has a row (Advance), until its last token.
// 2. PrepareStep lists the next tokens of each row's targets as watched. Candidates are needed only
//    for top_tokens.
// 3. Take adds the token's log-probability, and those of fusion's scorers and of an ensemble's
//    members, to the target's sums; at the end it computes the score as a search would: length
//    penalty, coverage.
//
// num_known_steps lets the driver read several tokens of a target in one step, as with a prompt.
//
// Example: targets 4 7 2 and 4 9 2, begin token 1. Step 0: one row reads 1, watched {4}. Step 1:
// two rows, each reads 4, watched {7} and {9}. Step 2: rows read 7 and 9, watched {2}. The sums are
// those of three log-probabilities each.
#include "engine/search/target_scorer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::search {
namespace {

absl::Status CheckTargets(const SearchOptions& options, const std::vector<TokenSequence>& targets) {
  if (targets.empty() || targets.size() > kMaxBeamSize) {
    return Invalid("targets: has ", targets.size(), " entries, must have 1 to ", kMaxBeamSize);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].empty() || targets[i].size() > kMaxLength) {
      return Invalid("targets[", i, "]: has ", targets[i].size(), " tokens, must have 1 to ",
                     kMaxLength);
    }
    for (size_t k = 0; k < targets[i].size(); ++k) {
      const int32_t token = targets[i][k];
      if (token < 0 || token >= options.vocabulary_size) {
        return Invalid("targets[", i, "]: token ", k, " is ", token, ", must be in [0, ",
                       options.vocabulary_size, ")");
      }
      const std::vector<int32_t>& banned = options.banned_tokens;
      if (std::find(banned.begin(), banned.end(), token) != banned.end()) {
        return Invalid("targets[", i, "]: token ", k, " is ", token, ", which is never generated");
      }
    }
  }
  return absl::OkStatus();
}

// The options that matter for scoring.
SearchOptions Relevant(const SearchOptions& options, const std::vector<TokenSequence>& targets) {
  SearchOptions relevant;
  relevant.beam_size = static_cast<int>(targets.size());
  relevant.vocabulary_size = options.vocabulary_size;
  relevant.begin_token = options.begin_token;
  relevant.end_tokens = options.end_tokens;
  relevant.banned_tokens = options.banned_tokens;
  relevant.length_penalty = options.length_penalty;
  relevant.alpha = options.alpha;
  relevant.word_reward = options.word_reward;
  relevant.coverage_penalty = options.coverage_penalty;
  relevant.scorers = options.scorers;
  relevant.num_members = options.num_members;
  relevant.num_top_tokens = options.num_top_tokens;
  for (const TokenSequence& target : targets) {
    relevant.max_length = std::max(relevant.max_length, static_cast<int>(target.size()));
  }
  return relevant;
}

}  // namespace

absl::StatusOr<TargetScorer> TargetScorer::Create(const SearchOptions& options,
                                                  std::vector<TokenSequence> targets) {
  BW_RETURN_IF_ERROR(CheckTargets(options, targets));
  const SearchOptions relevant = Relevant(options, targets);
  BW_RETURN_IF_ERROR(Validate(relevant));
  return TargetScorer(relevant, std::move(targets));
}

TargetScorer::TargetScorer(const SearchOptions& options, std::vector<TokenSequence> targets)
    : options_(options),
      targets_(std::move(targets)),
      pipeline_(options_),
      scores_(options_),
      coverage_(options_.coverage_penalty),
      rows_(1),
      tokens_({options.begin_token}),
      parents_({0}),
      results_(targets_.size()),
      fused_(targets_.size(), 0) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    rows_[0].push_back(i);
    results_[i].scorer_sums.assign(options_.scorers.size(), 0);
    results_[i].member_sums.assign(static_cast<size_t>(options_.num_members), 0);
  }
  PrepareStep();
}

int TargetScorer::candidates_per_row() const {
  return std::min(options_.num_top_tokens, options_.vocabulary_size);
}

int TargetScorer::num_known_steps() const {
  size_t known = kMaxLength;
  for (const std::vector<size_t>& targets : rows_) {
    known = std::min(known, targets.size() == 1
                                ? targets_[targets[0]].size() - static_cast<size_t>(num_steps_)
                                : size_t{0});
  }
  return rows_.empty() ? 0 : static_cast<int>(known);
}

absl::Span<const int32_t> TargetScorer::known_tokens(int row) const {
  const TokenSequence& target = targets_[rows_[static_cast<size_t>(row)][0]];
  return absl::MakeConstSpan(target).subspan(static_cast<size_t>(num_steps_));
}

void TargetScorer::PrepareStep() {
  rules_ = pipeline_.MakeRules(num_steps_, /*plain=*/true);
  watched_.resize(rows_.size());
  for (size_t row = 0; row < rows_.size(); ++row) {
    std::vector<int32_t>& watched = watched_[row];
    watched.clear();
    for (const size_t target : rows_[row]) {
      watched.push_back(targets_[target][static_cast<size_t>(num_steps_)]);
    }
    std::sort(watched.begin(), watched.end());
    watched.erase(std::unique(watched.begin(), watched.end()), watched.end());
    rules_[row].watched = watched;
  }
}

absl::Status TargetScorer::CheckRows(absl::Span<const RowCandidates> rows) const {
  if (rows.size() != rows_.size()) {
    return Invalid("step ", num_steps_, ": candidates of ", rows.size(), " rows, must be of ",
                   rows_.size());
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].watched.size() != watched_[row].size()) {
      return Invalid("step ", num_steps_, ", row ", row, ": ", rows[row].watched.size(),
                     " watched tokens, must be ", watched_[row].size());
    }
    for (const float log_prob : rows[row].watched) {
      if (!(log_prob <= kRoundedUp)) {
        return Invalid("step ", num_steps_, ", row ", row, ": a log-probability is ", log_prob,
                       ", must be a number not above 0");
      }
    }
    BW_RETURN_IF_ERROR(Annotate(CheckParts(rows[row], options_),
                                absl::StrCat("step ", num_steps_, ", row ", row)));
  }
  return absl::OkStatus();
}

void TargetScorer::Take(size_t index, size_t row, const RowCandidates& candidates) {
  const TokenSequence& target = targets_[index];
  const int32_t token = target[static_cast<size_t>(num_steps_)];
  const std::vector<int32_t>& watched = watched_[row];
  const auto place = std::lower_bound(watched.begin(), watched.end(), token) - watched.begin();
  const float log_prob = std::min(candidates.watched[static_cast<size_t>(place)], 0.0f);
  Hypothesis& result = results_[index];
  result.tokens.push_back(token);
  result.token_log_probs.push_back(log_prob);
  result.rows.push_back(static_cast<int32_t>(row));
  result.sum += static_cast<double>(log_prob);
  for (size_t i = 0; i < options_.scorers.size(); ++i) {
    const auto said = static_cast<double>(candidates.fused->score(i, token));
    result.scorer_sums[i] += said;
    fused_[index] += static_cast<double>(options_.scorers[i].weight) * said;
  }
  for (size_t i = 0; i < candidates.members.size(); ++i) {
    result.member_sums[i] += static_cast<double>(candidates.members[i].log_prob(token));
  }
  if (options_.num_top_tokens > 0) {
    std::vector<TopToken>& tops = result.top_tokens.emplace_back();
    for (size_t i = 0;
         i < candidates.tokens.size() && static_cast<int>(tops.size()) < options_.num_top_tokens;
         ++i) {
      if (candidates.log_probs[i] != kImpossible) {
        tops.push_back({candidates.tokens[i], std::min(candidates.log_probs[i], 0.0f)});
      }
    }
  }
  if (result.tokens.size() == target.size()) {
    const std::vector<int32_t>& ends = options_.end_tokens;
    const bool ends_itself = std::find(ends.begin(), ends.end(), token) != ends.end();
    result.reason = ends_itself ? FinishReason::kEos : FinishReason::kLength;
    result.coverage = coverage_.Penalty(static_cast<int>(row));
    result.score = scores_.Normalise(result.sum + fused_[index], static_cast<int>(target.size())) +
                   result.coverage;
  }
}

absl::Status TargetScorer::Advance(absl::Span<const RowCandidates> rows) {
  if (done()) {
    return absl::FailedPreconditionError("all targets are scored");
  }
  BW_RETURN_IF_ERROR(CheckRows(rows));
  BW_RETURN_IF_ERROR(
      Annotate(coverage_.AddStep(parents_, rows), absl::StrCat("step ", num_steps_)));
  std::vector<std::vector<size_t>> next_rows;
  tokens_.clear();
  parents_.clear();
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (const size_t index : rows_[row]) {
      Take(index, row, rows[row]);
      if (results_[index].tokens.size() < targets_[index].size()) {
        next_rows.push_back({index});
        tokens_.push_back(results_[index].tokens.back());
        parents_.push_back(static_cast<int32_t>(row));
      }
    }
  }
  rows_ = std::move(next_rows);
  ++num_steps_;
  pipeline_.Advance(parents_, tokens_);
  if (!rows_.empty()) {
    PrepareStep();
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
