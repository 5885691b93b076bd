// The strategies that one request's steps take: the target prefix is read first; then first tokens
// of alternatives are taken; the last step may be a forced end; all others are advanced in the way
// that the options ask for.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/step.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

// Strategy: one way to advance a search by a step. It says how many candidates of each row it
// needs, what the step's scan must watch or draw for it, and then chooses which pairs (row, token)
// live on and which finish. Order, scores, the n-best list and stopping are BeamSearch's.
//
// One thread at a time. Steps allocate only at first: strategies keep their memory.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // How many candidates of each row it needs for an exact answer, the vocabulary's size aside.
  // With E end tokens: beam_size + E, because the first beam_size other pairs of all rows are among
  // the first beam_size other pairs of their row, which are among its first beam_size + E,
  // and an end token's pair that may finish ranks below beam_size in its row. Greedy search needs
  // one.
  virtual int candidates_per_row(const SearchOptions& options) const;

  // Before the step's scan: adds to the rows what they watch, and to the rules what they draw.
  virtual void Prepare(const Step& /*step*/, absl::Span<RowRules> /*rules*/) const {}

  // Fills `choice`, which is empty. FailedPrecondition: nothing may be chosen although it must be.
  virtual absl::Status Choose(Step& step, Choice& choice) = 0;
};

// Movable, not copyable. One thread at a time.
class Strategies {
 public:
  // The options must be valid.
  explicit Strategies(const SearchOptions& options);

  // Of the step with this number of tokens after the target prefix; negative: within it.
  Strategy& At(int num_generated) const;

 private:
  int last_;                          // num_generated of the last step
  std::unique_ptr<Strategy> prefix_;  // null if missing, like the next
  std::unique_ptr<Strategy> alternatives_;
  std::unique_ptr<Strategy> free_;
  std::unique_ptr<Strategy> forced_end_;  // null: the last step is like others
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_
