// How many replicas a load needs, by simulating the queue of one of them.
//
// A replica steps all calls that it has in flight together, so each of them gets an equal share of
// what the replica does: a queue with processor sharing whose speed depends on the number in
// flight. That speed is measured, at a few points, by `beamwright load-test --concurrency N`. Calls
// beyond what the rows hold wait in order of arrival.
#ifndef BEAMWRIGHT_CLIENT_LOAD_CAPACITY_H_
#define BEAMWRIGHT_CLIENT_LOAD_CAPACITY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace beamwright::client {

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

#endif  // BEAMWRIGHT_CLIENT_LOAD_CAPACITY_H_
