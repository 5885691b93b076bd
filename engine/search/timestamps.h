// Timestamps as Whisper writes them: tokens of times between its texts. What may follow what is a
// processor (the rules of OpenAI's program and of transformers): an answer begins with a time of at
// most a second, times come in pairs, the end of a segment and the begin of the next, and do not
// fall. That a row writes a time if its times together are more probable than its best other token
// is decided by the strategy, which watches them.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_TIMESTAMPS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_TIMESTAMPS_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/search/processor.h"
#include "engine/search/step.h"
#include "engine/search/strategies.h"

namespace beamwright::search {

class Timestamps final : public Processor {
 public:
  // first: tokens from it to the vocabulary's end are times, 20 ms apart. end: the least end token,
  // below `first`.
  Timestamps(int32_t first, int32_t vocabulary_size, int32_t end);

  absl::string_view option() const override { return "target_prefix"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override;

 private:
  // Bans the times below `end`.
  void BanUntil(int32_t end, RuleBuffer& rules) const;

  const int32_t first_;
  const int32_t vocabulary_size_;
  std::vector<int32_t> from_end_;  // tokens from `end` on
  std::vector<int32_t> at_begin_;  // times of at most a second
};

// What another strategy chooses, among a row's times alone where these are more probable.
class TimestampStrategy final : public Strategy {
 public:
  explicit TimestampStrategy(std::unique_ptr<Strategy> chooser) : chooser_(std::move(chooser)) {}

  int candidates_per_row(const SearchOptions& options) const override {
    return chooser_->candidates_per_row(options);
  }
  // Watched: the times.
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  std::unique_ptr<Strategy> chooser_;
  WatchedCandidates watched_;
  std::vector<RowCandidates> lists_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_TIMESTAMPS_H_
