// Strategy: one way to advance a search by a step. It says how many candidates of each row it
// needs, what the step's scan must watch or draw for it, and then chooses which pairs (row, token)
// live on and which finish. Every way is a separate small file; strategies.h says which of them a
// request's steps take. What all have in common (order, scores, the n-best list, stopping) is
// BeamSearch's.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STRATEGY_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STRATEGY_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/step.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

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

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STRATEGY_H_
