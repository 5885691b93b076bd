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
#ifndef BEAMWRIGHT_SERVER_SEARCH_BEAM_SEARCH_H_
#define BEAMWRIGHT_SERVER_SEARCH_BEAM_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/base/row_rules.h"
#include "server/search/hypothesis.h"
#include "server/search/options.h"
#include "server/search/row_pipeline.h"
#include "server/search/score.h"
#include "server/search/slot_history.h"

namespace beamwright::search {

// A row's candidates: log-probability descending, equal ones by token ascending, no token twice.
// -infinity is allowed (never chosen). A value above 0 by at most kRoundedUp is taken as 0: a
// log-softmax may round up; more is no log-probability.
struct RowCandidates {
  absl::Span<const int32_t> tokens;
  absl::Span<const float> log_probs;
};
inline constexpr float kRoundedUp = 0.01f;

// GatherTree's result for one request: slots[step * stride + slot], `slots` starting at the
// request's first slot and stride >= num_slots, so that a [time, request, slot] tensor is read in
// place. Steps from the search's own num_steps() on are not looked at.
struct SlotPaths {
  absl::Span<const int32_t> slots;
  int64_t stride = 0;
};

// Movable, not copyable. Not thread-safe: one thread at a time. No allocation in a step except for
// the history's growth by doubling.
class BeamSearch {
 public:
  // InvalidArgument as by Validate.
  static absl::StatusOr<BeamSearch> Create(const SearchOptions& options);

  BeamSearch(BeamSearch&&) = default;
  BeamSearch& operator=(BeamSearch&&) = default;

  bool done() const { return done_; }
  // Live rows, best first: one before the first step, 0 once done, at most beam_size.
  int num_rows() const { return static_cast<int>(tokens_.size()); }
  // The following three have one element per live row and are views until the next Advance.
  // The token that the row reads in the next step.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  // The row of the step before that the row continues; 0 before the first step.
  absl::Span<const int32_t> parents() const { return parents_; }
  // What the next step's scan must apply to the row's logits.
  absl::Span<const RowRules> rules() const { return rules_; }

  // How many candidates of each row the search needs for an exact answer; more do no harm, fewer
  // prune. With E end tokens: min(beam_size + E, vocabulary_size). That is enough because the first
  // beam_size other pairs of all rows are among the first beam_size other pairs of their own row,
  // which stand among its first beam_size + E, and an end token's pair that may finish ranks below
  // beam_size in its row. Greedy search needs one.
  int candidates_per_row() const;

  // One step: candidates of each live row, in their order. On an error the search is unchanged,
  // except for the last one:
  //   InvalidArgument: NaN, a value above 0, a token outside the vocabulary, a wrong order, another
  //     number of rows; names step, row and candidate.
  //   FailedPrecondition: the search was done, or no row has a token of positive probability and
  //     nothing has finished; in the latter case the message names the options that mask tokens,
  //     the search is done and its n-best list is empty.
  absl::Status Advance(absl::Span<const RowCandidates> rows);

  // Steps, slots, and what GatherTree reads.
  const SlotHistory& history() const { return history_; }
  int num_slots() const { return history_.num_slots(); }
  // Hypotheses that chose an end token so far, those that left the n-best list included.
  int64_t num_finished() const { return num_finished_; }

  // The n-best list, best first, its tokens and log-probabilities gathered along the paths.
  // FailedPrecondition before done(); Internal if the paths are not those of this search.
  absl::StatusOr<std::vector<Hypothesis>> Collect(const SlotPaths& paths) const;

 private:
  struct Pair {
    double sum;
    int32_t parent;  // row, and its slot, in the step before
    int32_t token;
    float log_prob;
  };
  // A row's best candidate that has not been ranked yet.
  struct Cursor {
    double sum;
    int32_t row;
    int32_t candidate;
  };
  // A hypothesis of the n-best list.
  struct Entry {
    double score;
    double sum;
    int length;
    int slot;
    FinishReason reason;
  };

  explicit BeamSearch(const SearchOptions& options);

  bool IsEnd(int32_t token) const;
  // Fills living_, finishing_ and best_pair_ends_ from the step's candidates.
  void RankPairs(absl::Span<const RowCandidates> rows);
  void AddStep();
  // Puts the pair, which the last step of the history is about, on the n-best list if it belongs
  // there. live_slot: where it stands, for a row that is cut.
  void Enter(const Pair& pair, FinishReason reason, int live_slot);
  bool Precedes(const Pair& pair, double score, int length, const Entry& entry) const;
  bool MayStop() const;
  void End();

  SearchOptions options_;  // end_tokens ascending and distinct
  ScoreTable scores_;
  SlotHistory history_;
  RowPipeline pipeline_;
  absl::Span<RowRules> rules_;  // of the next step, the pipeline's

  bool done_ = false;
  int64_t num_finished_ = 0;
  std::vector<int32_t> tokens_;  // one per live row, like the next two
  std::vector<int32_t> parents_;
  std::vector<double> sums_;
  std::vector<Entry> best_;  // in n-best order

  // Of the step under way; members so that their memory is kept.
  std::vector<Cursor> cursors_;  // a heap, best first
  std::vector<Pair> living_;
  std::vector<Pair> finishing_;
  bool best_pair_ends_ = false;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_SERVER_SEARCH_BEAM_SEARCH_H_
