// Computes how many replicas of a server a load needs, by simulation, from measured points of one
// replica: how many calls a second it answers with a given number in flight (ServiceCurve).
//
// Replica simulates one: calls arrive at random (Poisson), those in flight share the speed of the
// curve equally (processor sharing, as rows of a batch do), and calls beyond max_in_flight wait.
// `given_` is the work that each call in flight has got since the beginning, so that a call is done
// at a fixed value of it, whatever the speed was in between.
//
// ReplicasFor doubles the number until the goal is met, then halves the interval. The first tenth
// of the calls does not count, as the simulation begins empty.
#include "client/load/capacity.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <utility>

#include "client/load/load.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr int kMaxReplicas = 1'000'000;

// A call in flight: it is done when each call has been given `done_at` in all, in units of a mean
// call.
struct Running {
  double done_at = 0;
  double arrived = 0;
  bool operator>(const Running& other) const { return done_at > other.done_at; }
};

// The state between two events. `given` is the work that each call in flight has got since the
// beginning.
class Replica {
 public:
  Replica(const ServiceCurve& curve, const ReplicaLoad& load) : curve_(curve), load_(load) {}

  // Lets time pass until `now` and answers what gets ready.
  void Advance(double now) {
    while (!running_.empty()) {
      const double speed = curve_.PerSecond(in_flight()) / in_flight();
      const double ready = time_ + (running_.top().done_at - given_) / speed;
      if (ready > now) {
        given_ += (now - time_) * speed;
        break;
      }
      given_ = running_.top().done_at;
      time_ = ready;
      answered_.push_back(time_ - running_.top().arrived);
      running_.pop();
      if (!waiting_.empty()) {
        Begin(waiting_.front());
        waiting_.pop_front();
      }
    }
    time_ = now;
  }

  // `size` is in mean calls.
  void Arrive(double size) {
    const std::pair<double, double> call(time_, size);
    if (static_cast<int>(running_.size()) < load_.max_in_flight) {
      Begin(call);
    } else {
      waiting_.push_back(call);
    }
  }

  double in_flight() const { return static_cast<double>(running_.size()); }
  std::vector<double>& answered() { return answered_; }

 private:
  void Begin(const std::pair<double, double>& call) {
    running_.push({.done_at = given_ + call.second, .arrived = call.first});
  }

  const ServiceCurve& curve_;
  const ReplicaLoad& load_;
  double time_ = 0;
  double given_ = 0;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  std::deque<std::pair<double, double>> waiting_;  // arrival, size
  std::vector<double> answered_;
};

bool Meets(const ServiceCurve& curve, const ReplicaLoad& total, const Goal& goal, int replicas) {
  ReplicaLoad one = total;
  one.rate = total.rate / replicas;
  const double most = curve.PerSecond(total.max_in_flight);
  return one.rate < most && SimulateReplica(curve, one).Within(goal.share) <= goal.seconds;
}

}  // namespace

absl::StatusOr<ServiceCurve> ServiceCurve::Make(std::vector<ServicePoint> points) {
  if (points.empty()) {
    return Invalid("there is no measured point; at least one is needed");
  }
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.in_flight < b.in_flight; });
  for (size_t i = 0; i < points.size(); ++i) {
    if (!(points[i].in_flight >= 1) || !(points[i].per_second > 0) ||
        !std::isfinite(points[i].in_flight + points[i].per_second)) {
      return Invalid("the point ", points[i].in_flight, ":", points[i].per_second,
                     " is not one: at least 1 call in flight and a rate above 0 are needed");
    }
    if (i > 0 && points[i].in_flight == points[i - 1].in_flight) {
      return Invalid("there are two points with ", points[i].in_flight, " calls in flight");
    }
  }
  return ServiceCurve(std::move(points));
}

double ServiceCurve::PerSecond(double in_flight) const {
  const auto above = std::find_if(points_.begin(), points_.end(), [&](const ServicePoint& point) {
    return point.in_flight >= in_flight;
  });
  if (above == points_.end()) {
    return points_.back().per_second;
  }
  const ServicePoint below = above == points_.begin() ? ServicePoint{0, 0} : *(above - 1);
  return below.per_second + (above->per_second - below.per_second) * (in_flight - below.in_flight) /
                                (above->in_flight - below.in_flight);
}

double ServiceCurve::MostPerSecond() const {
  return std::max_element(points_.begin(), points_.end(),
                          [](const auto& a, const auto& b) { return a.per_second < b.per_second; })
      ->per_second;
}

double SimulatedReplica::Within(double share) const {
  const auto count = static_cast<double>(latencies.size());
  const auto last = static_cast<size_t>(std::max(std::ceil(share * count), 1.0)) - 1;
  return latencies[std::min(last, latencies.size() - 1)];
}

SimulatedReplica SimulateReplica(const ServiceCurve& curve, const ReplicaLoad& load) {
  ArrivalTimes arrivals(Arrivals::kPoisson, load.rate, load.seed);
  // Not the seed of the arrivals: sizes would follow from the gaps before them.
  std::mt19937_64 random(load.seed + 0x9e3779b97f4a7c15);
  Replica replica(curve, load);
  std::vector<int> seen;
  for (int call = 0; call < load.calls; ++call) {
    replica.Advance(absl::ToDoubleSeconds(arrivals.Next()));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    replica.Arrive(1 + load.spread * std::sqrt(3.0) * (2 * uniform - 1));
    seen.push_back(static_cast<int>(replica.in_flight()));
  }
  replica.Advance(std::numeric_limits<double>::max());
  SimulatedReplica result;
  std::vector<double>& all = replica.answered();
  result.latencies.assign(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 10), all.end());
  std::sort(result.latencies.begin(), result.latencies.end());
  std::sort(seen.begin(), seen.end());
  result.in_flight = seen[seen.size() - 1 - seen.size() / 1000];
  return result;
}

absl::StatusOr<int> ReplicasFor(const ServiceCurve& curve, const ReplicaLoad& total,
                                const Goal& goal) {
  const double alone = 1 / curve.PerSecond(1);
  if (alone > goal.seconds) {
    return absl::FailedPreconditionError(
        absl::StrCat("a call that is alone takes ", alone * 1e3, " ms, longer than the ",
                     goal.seconds * 1e3, " ms that are asked for: no number of replicas helps"));
  }
  int enough = 1;
  while (!Meets(curve, total, goal, enough)) {
    if (enough >= kMaxReplicas) {
      return absl::OutOfRangeError("more than a million replicas would be needed");
    }
    enough = std::min(2 * enough, kMaxReplicas);
  }
  for (int too_few = enough / 2; too_few + 1 < enough;) {
    const int middle = too_few + (enough - too_few) / 2;
    (Meets(curve, total, goal, middle) ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace beamwright::client
