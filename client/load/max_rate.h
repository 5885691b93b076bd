// The highest rate at which a server keeps a promise (a service level objective, SLO): that at most
// a share of calls is slow, or fails; and how many replicas a load needs.
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

#include <cstdint>
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

// How many replicas a load needs, by simulating the queue of one of them.
//
// A replica steps all calls that it has in flight together, so each of them gets an equal share of
// what the replica does: a queue with processor sharing whose speed depends on the number in
// flight. That speed is measured, at a few points, by `beamwright load-test --concurrency N`. Calls
// beyond what the rows hold wait in order of arrival.

// With `in_flight` calls, a replica answers `per_second`.
struct ServicePoint {
  double in_flight = 1;
  double per_second = 1;
};

// Speed by calls in flight: straight lines between the points, through zero below the first one and
// level beyond the last.
class ServiceCurve {
 public:
  // InvalidArgument without points, for one that is not above zero, or two of the same number in
  // flight.
  static absl::StatusOr<ServiceCurve> Make(std::vector<ServicePoint> points);

  double PerSecond(double in_flight) const;
  // Of all points.
  double MostPerSecond() const;

 private:
  explicit ServiceCurve(std::vector<ServicePoint> points) : points_(std::move(points)) {}

  std::vector<ServicePoint> points_;  // by in_flight, ascending
};

struct ReplicaLoad {
  // Calls a second, which come independently of each other.
  double rate = 1;
  // Most calls in flight; others wait.
  int max_in_flight = 1 << 20;
  // Standard deviation of the calls' sizes over their mean, 0 to 0.57 (sizes are uniform).
  double spread = 0;
  int calls = 20'000;
  uint64_t seed = 1;
};

struct SimulatedReplica {
  // Seconds from arrival to answer of each call, ascending; the first tenth of the calls is left
  // out.
  std::vector<double> latencies;
  // Calls in flight that were exceeded for a thousandth of the arrivals only.
  int in_flight = 0;

  // share in (0, 1]: the time within which that share of the calls was answered.
  double Within(double share) const;
};

SimulatedReplica SimulateReplica(const ServiceCurve& curve, const ReplicaLoad& load);

struct Goal {
  double seconds = 0.1;
  // Of the calls, in (0, 1).
  double share = 0.99;
};

// The fewest replicas that answer `total.rate` calls a second as the goal says, each getting its
// part of them. FailedPrecondition if a call that is alone takes longer; OutOfRange beyond a
// million replicas.
absl::StatusOr<int> ReplicasFor(const ServiceCurve& curve, const ReplicaLoad& total,
                                const Goal& goal);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_MAX_RATE_H_
