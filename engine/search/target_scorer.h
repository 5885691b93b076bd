// TargetScorer: teacher forcing. Rows read given targets, token by token, and the model's
// log-probabilities of these tokens are added as a search adds them. It is driven like one
// (row_search.h) and shares its batches, so the same kernels compute the same bits.
//
// All targets begin in one row and part behind the first token; a row goes when its target ends.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_TARGET_SCORER_H_
#define BEAMWRIGHT_ENGINE_SEARCH_TARGET_SCORER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/search/n_best_list.h"
#include "engine/search/options.h"
#include "engine/search/row_search.h"
#include "engine/search/step.h"

namespace beamwright::search {

// Movable. One thread at a time.
class TargetScorer final : public RowSearch {
 public:
  // Of the options: vocabulary, begin, end and banned tokens, length penalty, word reward, coverage
  // penalty, scorers, num_members and num_top_tokens count. InvalidArgument if there are no
  // targets, more than kMaxBeamSize, or one ("targets[i]") is empty, longer than kMaxLength, or has
  // a token outside the vocabulary or that is never generated.
  static absl::StatusOr<TargetScorer> Create(const SearchOptions& options,
                                             std::vector<TokenSequence> targets);

  const SearchOptions& options() const { return options_; }
  bool done() const override { return rows_.empty(); }
  int num_rows() const override { return static_cast<int>(tokens_.size()); }
  absl::Span<const int32_t> tokens() const override { return tokens_; }
  absl::Span<const int32_t> parents() const override { return parents_; }
  absl::Span<const RowRules> rules() const override { return rules_; }
  int candidates_per_row() const override;
  int num_steps() const override { return num_steps_; }
  int num_known_steps() const override;
  absl::Span<const int32_t> known_tokens(int row) const override;

  // InvalidArgument as BeamSearch::Advance. A token of probability 0 is not an error: its target's
  // sum is -infinity.
  absl::Status Advance(absl::Span<const RowCandidates> rows) override;

  // Once done: one for each target, in their order. The reason is kEos where an end token is the
  // last.
  const std::vector<Hypothesis>& results() const { return results_; }

 private:
  TargetScorer(const SearchOptions& options, std::vector<TokenSequence> targets);
  // Rules and watched tokens of the next step.
  void PrepareStep();
  absl::Status CheckRows(absl::Span<const RowCandidates> rows) const;
  // What target `index`, whose next token is chosen from `row`, gets in this step.
  void Take(size_t index, size_t row, const RowCandidates& candidates);

  SearchOptions options_;
  std::vector<TokenSequence> targets_;
  RowPipeline pipeline_;
  ScoreTable scores_;
  Coverage coverage_;
  int num_steps_ = 0;
  std::vector<std::vector<size_t>> rows_;  // the targets of each live row
  std::vector<int32_t> tokens_;
  std::vector<int32_t> parents_;
  absl::Span<RowRules> rules_;
  std::vector<std::vector<int32_t>> watched_;  // of each row, ascending
  std::vector<Hypothesis> results_;
  std::vector<double> fused_;  // by target: what scorers add
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_TARGET_SCORER_H_
