// The highest rate at which a server keeps a promise (a service level objective, SLO): that at most
// a share of calls is slow, or fails.
//
// Each trial is an open loop at one rate. Whether a promise holds is a question about a share, and
// calls that wait in one queue are slow together, so their number says too little: the trial is cut
// into its seconds, and the share's standard error is that of their means (batch means; Law,
// "Simulation Modeling and Analysis", section 9.5.3), one-sided at 95 % by Student's t, and never
// less than Wilson's for independent calls. A trial whose interval holds the limit is repeated, and
// then counts as not held. The rate that is found is tried once more, longer, in a run that took no
// part in finding it: the best of many trials is partly luck.
#ifndef BEAMWRIGHT_CLIENT_LOAD_MAX_RATE_H_
#define BEAMWRIGHT_CLIENT_LOAD_MAX_RATE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/load/load.h"

namespace beamwright::client {

struct SloClause {
  enum class Of {
    kAnswers,      // calls without an answer within `limit`
    kFirstTokens,  // streams whose first stable token came later than `limit`
    kErrors,       // calls that failed
  };
  std::string text;  // "p99<50ms"
  Of of = Of::kAnswers;
  absl::Duration limit;
  double allowed = 0;  // share of calls, in (0, 1)
};

struct ShareBounds {
  double share = 0;
  double lower = 0, upper = 1;  // each with 95 % confidence
  int64_t calls = 0;
};

// parts: calls at fault, and all calls, second by second.
ShareBounds BoundShare(absl::Span<const std::pair<int64_t, int64_t>> parts);

enum class Verdict {
  kHolds,    // every clause, with 95 % confidence
  kBroken,   // some clause is not kept, with 95 % confidence
  kUnknown,  // neither
  kClient,   // as kBroken, but the client could not send that much
};

struct RateTrial {
  double rate = 0;
  Verdict verdict = Verdict::kUnknown;
  std::vector<ShareBounds> clauses;  // in their order
  LoadReport report;                 // of the last run
  double seconds = 0;                // of all its runs
  bool confirms = false;             // the run that took no part in the search
};

struct MaxRateOptions {
  // Where to look, calls a second; 0: about what a closed loop of 16 calls reaches.
  double lowest = 0, highest = 0;
  // The search ends when a rate that holds and one that does not are this near.
  double precision = 0.05;
  // Called after each trial. May be null.
  std::function<void(const RateTrial&)> on_trial;
};

struct MaxRate {
  double rate = 0;       // the highest that holds; 0: none was found
  double broken_at = 0;  // the lowest that was not shown to hold; 0: none
  bool confirmed = false;
  bool client_bound = false;  // above `rate` the client could not send enough
  bool stopped = false;
  // Why the search ended early: a trial had no answer at all, and others would have none either (a
  // server that is gone). OK: it did not.
  absl::Status failure;
  std::vector<RateTrial> trials;
};

// Measures one load, as RunLoad does.
using LoadRunner = std::function<absl::StatusOr<LoadReport>(const LoadOptions&)>;

// `load`: the calls; its rate, limits and warm-up are set here, its duration is the least of a
// trial, and its concurrency the most that can be in flight. InvalidArgument as the runner's, and
// for clauses whose share is not in (0, 1).
absl::StatusOr<MaxRate> FindMaxRate(const LoadRunner& run, const LoadOptions& load,
                                    const std::vector<SloClause>& slo,
                                    const MaxRateOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_MAX_RATE_H_
