// Beam search of one request, turned inside out: the caller runs the model, the search says which
// rows to run and chooses among their candidates. It knows no model, no tensor and no thread, so
// requests at different steps share a batch freely, and one plain loop tests it.
//
//   while (!search.done()) {
//     // gather states by parents(), feed tokens(), scan the logits under rules() for the
//     // candidates_per_row() best of each row
//     BW_RETURN_IF_ERROR(search.Advance(candidates));
//   }
//   // GatherTree(history().slot_ids(), history().slot_parents(), end_token = -1) -> paths
//   search.Collect(paths)
//
// A step (docs/decoding.md, 'Order' and 'Stopping'). All pairs (live row, token) are ranked by
// sum descending, then row ascending, then log-probability descending, then token ascending. The
// third key matters only where the sums of two tokens of one row round to the same double; with it,
// a row's best candidates are always the row's best pairs. A pair of probability 0 (-infinity) is
// no pair. With beam B, an end token's pair finishes if fewer than B pairs rank above it, and is
// dropped otherwise; the first B other pairs live on, and their rank is their row's number in the
// next step. Fewer than B may be left: a row without pairs dies.
//
// The n-best list holds at most n_best hypotheses, ordered by score descending, then fewer tokens,
// then lexicographically by token ids; they are distinct by construction. A finished hypothesis
// enters it when it finishes, and the last one of a full list leaves. When the search reaches
// max_length, its live rows are cut and enter the same list by the same order with reason kLength,
// after and on equal terms with what finished: nothing is preferred for having an end token. When a
// search ends earlier (stop mode, greedy, no row left), live rows are discarded, so that the list
// may be shorter than n_best.
//
// Beam 1 is greedy search: it ends at the first end token whatever the stop mode.
//
// A pair that completes a stop string takes its place among the B that live on, and ends there: the
// next step has fewer rows to begin with.
//
// Options change these rules where docs/decoding.md says so: a target prefix is read first, in one
// row; groups of rows are ranked apart; rows with more of the required tokens are ranked apart from
// rows with fewer; with sampling, chance chooses. Each of these ways to advance is a Strategy
// (strategies.h); the search keeps what they have in common.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_BEAM_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_BEAM_SEARCH_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/search/n_best_list.h"
#include "engine/search/options.h"
#include "engine/search/row_search.h"
#include "engine/search/step.h"
#include "engine/search/strategies.h"

namespace beamwright::search {

// GatherTree's result for one request: slots[step * stride + slot], `slots` starting at the
// request's first slot and stride >= num_slots, so that a [time, request, slot] tensor is read in
// place. Steps from the search's own num_steps() on are not looked at.
struct SlotPaths {
  absl::Span<const int32_t> slots;
  int64_t stride = 0;
};

// Movable, not copyable. Not thread-safe: one thread at a time. No allocation in a step except for
// the growth of histories.
class BeamSearch final : public RowSearch {
 public:
  // InvalidArgument as by Validate.
  static absl::StatusOr<BeamSearch> Create(const SearchOptions& options);

  BeamSearch(BeamSearch&&) = default;
  BeamSearch& operator=(BeamSearch&&) = default;

  const SearchOptions& options() const { return options_; }
  bool done() const override { return done_; }
  // Live rows, best first: one before the first step, 0 once done, at most beam_size.
  int num_rows() const override { return static_cast<int>(tokens_.size()); }
  absl::Span<const int32_t> tokens() const override { return tokens_; }
  absl::Span<const int32_t> parents() const override { return parents_; }
  absl::Span<const RowRules> rules() const override { return rules_; }

  // How many candidates of each row the search needs in this step for an exact answer (see
  // Strategy); more do no harm, fewer prune. At most the vocabulary's size.
  int candidates_per_row() const override;
  int num_steps() const override { return history_.num_steps(); }
  int num_known_steps() const override { return done_ ? 0 : std::max(-num_generated(), 0); }
  absl::Span<const int32_t> known_tokens(int row) const override;

  // One step: candidates of each live row, in their order. On an error the search is unchanged,
  // except for the last one:
  //   InvalidArgument: NaN, a value above 0, a token outside the vocabulary, a wrong order, another
  //     number of rows or watched tokens; names step, row and candidate.
  //   FailedPrecondition: the search was done, or no row has a token of positive probability and
  //     nothing has finished, or what was cut does not meet its constraints; in the latter cases
  //     the message names the options that did it, and the search is done with an empty list.
  absl::Status Advance(absl::Span<const RowCandidates> rows) override;

  // Ends the search as it stands: live rows fill what finished hypotheses leave of the n-best list,
  // ordered among themselves as ever, with the reason, kDeadline or kShutdown; random samples keep
  // their order.
  // False, and nothing changes, if no row may end here: before the first token behind the target
  // prefix, or where constraints are not met yet.
  bool Cut(FinishReason reason);

  // A hypothesis that may be in the answer yet.
  struct Head {
    int slot = 0;    // where it ends in the history
    int length = 0;  // steps
    int sample = 0;  // of random sampling
    double key = 0;  // what it would be ordered by if it ended here
    bool live = false;
  };
  // All of them: the n-best list, and live rows that can still enter it. Once the search is done,
  // its answer.
  void ListHeads(std::vector<Head>& heads) const;

  // Steps, slots, and what GatherTree reads.
  const SlotHistory& history() const { return history_; }
  int num_slots() const { return history_.num_slots(); }
  // Hypotheses that chose an end token so far, those that left the n-best list included.
  int64_t num_finished() const { return num_finished_; }

  // Null unless the options ask for it; complete once the search is done.
  const SearchTrace* trace() const { return trace_.get(); }

  // The n-best list, best first (samples: in the order of their numbers), its tokens and
  // log-probabilities gathered along the paths. FailedPrecondition before done(); Internal if the
  // paths are not those of this search.
  absl::StatusOr<std::vector<Hypothesis>> Collect(const SlotPaths& paths) const;

 private:
  // Hypotheses that compete for the same n-best list, and when they stop.
  struct List {
    NBestList best;
    int beam_size;
    int64_t num_finished = 0;
    bool done = false;
    std::vector<double> best_finished;  // kHeuristic: at most beam_size scores, the worst in front
  };

  explicit BeamSearch(const SearchOptions& options);

  // Tokens behind the target prefix.
  int num_generated() const {
    return history_.num_steps() - static_cast<int>(options_.constraints.prefix.size());
  }
  List& ListOf(int group) { return lists_[lists_.size() == 1 ? 0 : static_cast<size_t>(group)]; }

  Gains GainsOf(const SearchOptions& options) const;
  absl::Status CheckRows(absl::Span<const RowCandidates> rows) const;
  // Rules, watched tokens and draws of the next step.
  void PrepareStep();
  // Fills choice_ from the step's candidates.
  absl::Status Choose(absl::Span<const RowCandidates> rows);
  // The options that may have left nothing to choose, for a message.
  std::string BarringOptions() const;

  // Moves the pairs that complete a stop string from those that live on.
  void EndAtStopStrings();

  void StartTrace();
  void EndTrace(const Step& step);
  void FinishTrace();
  void RecordTopTokens(absl::Span<const RowCandidates> rows);
  void AddStep();
  ListEntry MakeEntry(const Pair& pair, FinishReason reason) const;
  void Enter(const Pair& pair, FinishReason reason, int live_slot);
  absl::Status CutRows();
  void UpdateLists();
  // Whether a list is final. Never before a hypothesis has finished, so not within the prefix.
  bool MayStop(size_t index, double best_total) const;
  // Whether something that continues a live row may enter the list yet.
  bool MayEnter(const List& list, const LiveRow& row) const;
  absl::Status NothingLeft(absl::string_view what, const std::string& names);
  void End();
  absl::StatusOr<Hypothesis> CollectOne(const ListEntry& entry, const SlotPaths& paths) const;

  SearchOptions options_;  // end_tokens ascending and distinct
  RowPipeline pipeline_;
  ScoreTable scores_;
  SlotHistory history_;
  Coverage coverage_;
  Strategies strategies_;
  absl::Span<RowRules> rules_;  // of the next step, the pipeline's
  double prefix_sum_ = 0;

  bool done_ = false;
  int64_t num_finished_ = 0;
  std::vector<int32_t> tokens_;  // one per live row, like the next two
  std::vector<int32_t> parents_;
  std::vector<LiveRow> rows_;
  std::vector<List> lists_;           // one, or one for each alternative
  std::vector<TopToken> top_tokens_;  // [row][num_top_tokens] of each step; token -1: none
  std::vector<size_t> top_starts_;    // a step's first element in top_tokens_

  Choice choice_;  // of the last step
  std::unique_ptr<SearchTrace> trace_;
};

// StableTokens: which tokens of a search's answer can no longer change (docs/decoding.md,
// 'Streaming'): those with which all hypotheses begin that may be in the answer yet.

// Follows one search. One thread at a time.
class StableTokens {
 public:
  // Tokens that became stable.
  struct Piece {
    int sample = 0;    // of random sampling, whose samples are stable each for itself; else 0
    int position = 0;  // of the first token in a hypothesis, the target prefix included
    std::vector<int32_t> tokens;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  // To be called after each step, at least after the last one: pieces, each not empty, that go on
  // where earlier ones ended. Costs rows x steps since the last stable token.
  std::vector<Piece> Update(const BeamSearch& search);

 private:
  // Common beginning of the hypotheses that end at these (step, slot), beyond `known` tokens.
  static std::vector<int32_t> CommonTokens(const SlotHistory& history,
                                           const std::vector<BeamSearch::Head>& heads, int sample,
                                           int known);

  std::vector<int> num_stable_;  // by sample
  std::vector<BeamSearch::Head> heads_;
};

// The hypothesis that would be first if the search ended now, by score alone: its tokens. Empty
// before the first step. `best` is set to it.
std::vector<int32_t> BestTokensSoFar(const BeamSearch& search, BeamSearch::Head& best);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_BEAM_SEARCH_H_
