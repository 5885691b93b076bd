// Whisper's rules for tokens of times, which surround each segment of text: <|0.00|> text
// <|2.40|><|2.40|> text ...
//
// Timestamps (a processor) bans what would break the order: an answer begins with a time of the
// first second; after two times in a row comes text, after one that follows text another time or
// the end; and times do not go back.
//
// TimestampStrategy adds the rule that looks at all tokens: where the times together are more
// probable than the best other token, only times are candidates of the row. It watches all times
// (Prepare), so their log-probabilities are known exactly.
#include "engine/search/timestamps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace beamwright::search {
namespace {

constexpr int32_t kMostAtBegin = 50;  // a second

// The sum of all times against the best other token, as in Whisper's own rule.
bool TimesWin(const RowCandidates& row, int32_t first) {
  double sum = 0;
  for (const float log_prob : row.watched) {
    sum += std::exp(static_cast<double>(log_prob));
  }
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    if (row.tokens[i] < first && row.log_probs[i] != kImpossible) {
      return std::log(sum) > static_cast<double>(row.log_probs[i]);  // it is the best of its kind
    }
  }
  return sum > 0;  // each candidate is a time, and more probable than all other tokens
}

}  // namespace

Timestamps::Timestamps(int32_t first, int32_t vocabulary_size, int32_t end)
    : first_(first),
      vocabulary_size_(vocabulary_size),
      from_end_(static_cast<size_t>(vocabulary_size - end)),
      at_begin_(static_cast<size_t>(std::min(vocabulary_size - first, kMostAtBegin + 1))) {
  std::iota(from_end_.begin(), from_end_.end(), end);
  std::iota(at_begin_.begin(), at_begin_.end(), first);
}

void Timestamps::BanUntil(int32_t end, RuleBuffer& rules) const {
  for (int32_t token = first_; token < std::min(end, vocabulary_size_); ++token) {
    rules.Ban(token);
  }
}

void Timestamps::Apply(const RowView& row, RuleBuffer& rules) const {
  const auto generated = static_cast<size_t>(row.num_generated);
  if (generated == 0) {
    rules.Allow(at_begin_);
    return;
  }
  const absl::Span<const int32_t> tokens = row.tokens.subspan(row.tokens.size() - generated);
  const auto last = std::find_if(tokens.rbegin(), tokens.rend(),
                                 [this](int32_t token) { return token >= first_; });
  const bool ends_in_time = last == tokens.rbegin();
  const bool ends_in_two = ends_in_time && (generated < 2 || tokens[generated - 2] >= first_);
  if (ends_in_two) {
    BanUntil(vocabulary_size_, rules);
    return;
  }
  if (ends_in_time) {
    rules.Allow(from_end_);
  }
  if (last != tokens.rend()) {
    BanUntil(*last + (ends_in_time ? 0 : 1), rules);
  }
}

void TimestampStrategy::Prepare(const Step& step, absl::Span<RowRules> rules) const {
  const SearchOptions& options = step.options();
  const int32_t first = options.processors.first_timestamp;
  for (LiveRow& row : step.rows()) {
    row.watched.resize(static_cast<size_t>(options.vocabulary_size - first));
    std::iota(row.watched.begin(), row.watched.end(), first);
  }
  chooser_->Prepare(step, rules);
}

absl::Status TimestampStrategy::Choose(Step& step, Choice& choice) {
  if (!step.forced_end()) {
    const absl::Span<const RowCandidates> times = watched_.Only(step);
    lists_.assign(step.candidates().begin(), step.candidates().end());
    for (size_t r = 0; r < lists_.size(); ++r) {
      if (TimesWin(lists_[r], step.options().processors.first_timestamp)) {
        lists_[r] = times[r];
      }
    }
    step.SetCandidates(lists_);
  }
  return chooser_->Choose(step, choice);
}

}  // namespace beamwright::search
