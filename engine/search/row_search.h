// RowSearch: what decides which rows a model runs in the next step and what they read. Two kinds
// exist: BeamSearch chooses tokens, TargetScorer is given them. The code that runs the model needs
// to know no more than this of either:
//
//   while (!search.done()) {
//     // gather states by parents(), feed tokens(), scan the logits under rules() for the
//     // candidates_per_row() best of each row
//     BW_RETURN_IF_ERROR(search.Advance(candidates));
//   }
#ifndef BEAMWRIGHT_ENGINE_SEARCH_ROW_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_ROW_SEARCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

// A row's candidates: rank score descending, equal ones by token ascending, no token twice; of
// sampling, the drawn tokens in the order of the draws. A log-probability of -infinity is allowed
// (never chosen). One above 0 by at most kRoundedUp is taken as 0: a log-softmax may round up; more
// is not a log-probability.
struct RowCandidates {
  absl::Span<const int32_t> tokens;
  absl::Span<const float> log_probs;
  absl::Span<const float> rank_scores;     // empty: the log-probabilities
  absl::Span<const float> watched;         // log-probabilities of rules().watched
  const FusedRow* fused = nullptr;         // where there are scorers; rank_scores have its share
  absl::Span<const MemberScores> members;  // of an ensemble
  // Weights over source positions in this step; read only where a coverage penalty is asked for.
  absl::Span<const float> attention;
};
inline constexpr float kRoundedUp = 0.01f;

// One thread at a time.
class RowSearch {
 public:
  virtual ~RowSearch() = default;

  virtual bool done() const = 0;
  // Live rows: one before the first step, 0 once done.
  virtual int num_rows() const = 0;
  // The following three have one element per live row and are views until the next Advance.
  // The token that the row reads in the next step.
  virtual absl::Span<const int32_t> tokens() const = 0;
  // The row of the step before that the row continues; 0 before the first step.
  virtual absl::Span<const int32_t> parents() const = 0;
  // What the next step's scan must apply to the row's logits.
  virtual absl::Span<const RowRules> rules() const = 0;
  // How many candidates of each row the next step needs; more do no harm.
  virtual int candidates_per_row() const = 0;
  // Steps made.
  virtual int num_steps() const = 0;

  // Steps, from the next one on, whose choices are known whatever the model says of them: those of
  // a target prefix or of given targets. Each row lives through all of them, continues itself, and
  // has the rules of the next step but for the tokens that it watches. So a row's next positions
  // can be run in one step of the model, and be handed to Advance one after the other.
  virtual int num_known_steps() const { return 0; }
  // The row's choices in these: what it watches in the first of them, reads in the second and
  // watches then, and so on.
  virtual absl::Span<const int32_t> known_tokens(int /*row*/) const { return {}; }

  // One step: candidates of each live row, in their order.
  virtual absl::Status Advance(absl::Span<const RowCandidates> rows) = 0;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_ROW_SEARCH_H_
