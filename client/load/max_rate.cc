// The search for the highest rate that keeps all clauses of a service level objective (max_rate.h
// has the statistics).
//
// 1. FirstRate: half of what a closed loop reaches, if no lowest rate is given.
// 2. Bracket: from there up or down by factors of 1.5, until one rate holds and one does not.
// 3. Bisection by the geometric mean, until both are within `precision` of each other.
// 4. Confirm: the rate is tried again, twice as long; where it does not hold, the rate is lowered,
//    up to kMostConfirmations times.
//
// A trial (Trial) is one run of the load, or up to kMostRuns while its verdict is unknown; the
// parts of all runs count together. Judge compares the confidence bounds of each clause's share
// (BoundShare) with its limit. A run that is clearly broken is cut short (RunOnce). If calls were
// sent late because this machine could not send faster, the verdict is kClient: the search then
// says that it found the client's limit, not the server's.
#include "client/load/max_rate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <thread>
#include <utility>

#include "client/load/load.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

constexpr double kNormal95 = 1.645;  // quantile of the normal distribution
constexpr double kStep = 1.5;        // from rate to rate until one holds and one does not
constexpr double kLowestRate = 0.05;
constexpr int kMostTrials = 40;
constexpr int kMostRuns = 3;  // of an undecided trial
constexpr int kMostConfirmations = 4;
constexpr absl::Duration kLongestTrial = absl::Minutes(5);
constexpr size_t kPartsToTell = 4;  // from this number on a trial that fails may be cut short

// Student's t at 95 %, one-sided, by degrees of freedom from 1; beyond, the normal's.
double StudentT95(size_t degrees) {
  constexpr double kTable[] = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860,
                               1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
                               1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711,
                               1.708, 1.706, 1.703, 1.701, 1.699, 1.697};
  return degrees == 0                  ? kTable[0]
         : degrees > std::size(kTable) ? kNormal95 + 1.6 / static_cast<double>(degrees)
                                       : kTable[degrees - 1];
}

using Parts = std::vector<std::pair<int64_t, int64_t>>;

void AddParts(const LoadReport& report, const std::vector<SloClause>& slo,
              std::vector<Parts>& parts) {
  for (const LoadInterval& interval : report.timeline) {
    size_t answer = 0, first = 0;
    for (size_t i = 0; i < slo.size(); ++i) {
      const int64_t at_fault = slo[i].of == SloClause::Of::kAnswers ? interval.num_over[answer++]
                               : slo[i].of == SloClause::Of::kFirstTokens
                                   ? interval.num_first_over[first++] + interval.num_failed
                                   : interval.num_failed;
      parts[i].emplace_back(at_fault, interval.num_calls + interval.num_failed);
    }
  }
}

class Search {
 public:
  Search(const LoadRunner& run, LoadOptions load, const std::vector<SloClause>& slo,
         const MaxRateOptions& options)
      : run_(run), load_(std::move(load)), slo_(slo), options_(options) {
    for (const SloClause& clause : slo) {
      if (clause.of == SloClause::Of::kAnswers) {
        load_.limits.push_back(clause.limit);
      } else if (clause.of == SloClause::Of::kFirstTokens) {
        load_.first_limits.push_back(clause.limit);
      }
      strictest_ = std::min(strictest_, clause.allowed);
    }
    load_.max_calls = 0;
  }

  absl::StatusOr<MaxRate> Run() {
    double rate = options_.lowest;
    if (rate == 0) {
      BW_ASSIGN_OR_RETURN(rate, FirstRate());
    }
    BW_RETURN_IF_ERROR(Bracket(rate));
    while (Going() && found_.rate > 0 &&
           found_.broken_at > found_.rate * (1 + options_.precision)) {
      BW_RETURN_IF_ERROR(Try(std::sqrt(found_.rate * found_.broken_at)));
    }
    for (int i = 0; i < kMostConfirmations && Going() && found_.rate > 0 && !found_.confirmed;
         ++i) {
      BW_RETURN_IF_ERROR(Confirm());
    }
    found_.stopped = UserStopped();
    return std::move(found_);
  }

 private:
  bool UserStopped() const { return load_.stop != nullptr && load_.stop->load(); }
  bool Going() const {
    return !UserStopped() && found_.failure.ok() &&
           found_.trials.size() < static_cast<size_t>(kMostTrials);
  }

  // Half of what a closed loop reaches.
  absl::StatusOr<double> FirstRate() {
    LoadOptions closed = load_;
    closed.concurrency = std::min(16, load_.concurrency);
    closed.duration = absl::Seconds(2);
    BW_ASSIGN_OR_RETURN(const LoadReport report, run_(closed));
    if (report.num_calls == 0 && !UserStopped()) {
      return report.first_failure.ok() ? absl::UnavailableError("no call was answered")
                                       : report.first_failure;
    }
    const double seconds = std::max(0.1, absl::ToDoubleSeconds(report.elapsed));
    return std::max(kLowestRate, static_cast<double>(report.num_calls) / seconds / 2);
  }

  // Tries rates until one that holds and one that does not are known.
  absl::Status Bracket(double rate) {
    while (Going()) {
      BW_RETURN_IF_ERROR(Try(rate));
      if (found_.rate > 0 && (found_.broken_at > 0 || found_.client_bound)) {
        break;
      }
      const bool up = found_.rate > 0;
      if (up && options_.highest > 0 && rate >= options_.highest) {
        break;
      }
      if (!up && (rate <= kLowestRate || (options_.lowest > 0 && rate <= options_.lowest))) {
        break;
      }
      rate = up ? rate * kStep : std::max(kLowestRate, rate / kStep);
      if (up && options_.highest > 0) {
        rate = std::min(rate, options_.highest);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Try(double rate) {
    BW_ASSIGN_OR_RETURN(RateTrial trial, Trial(rate, load_.duration));
    if (trial.verdict == Verdict::kHolds) {
      found_.rate = std::max(found_.rate, rate);
    } else if (Tells(trial)) {
      found_.client_bound = found_.client_bound || trial.verdict == Verdict::kClient;
      found_.broken_at = found_.broken_at == 0 ? rate : std::min(found_.broken_at, rate);
    }
    Tell(std::move(trial));
    return absl::OkStatus();
  }

  // Whether a trial that does not hold says something about its rate: not if the user stopped it,
  // or if every call fails.
  bool Tells(const RateTrial& trial) {
    const LoadReport& report = trial.report;
    if (report.num_calls == 0 && FailsEveryCall(report.first_failure) && !UserStopped()) {
      found_.failure = report.first_failure;
    }
    return !UserStopped() && found_.failure.ok();
  }

  absl::Status Confirm() {
    BW_ASSIGN_OR_RETURN(RateTrial trial, Trial(found_.rate, 2 * load_.duration));
    trial.confirms = true;
    if (trial.verdict == Verdict::kHolds) {
      found_.confirmed = true;
    } else if (Tells(trial)) {
      found_.broken_at = found_.rate;
      found_.rate /= 1 + options_.precision;
    }
    Tell(std::move(trial));
    return absl::OkStatus();
  }

  void Tell(RateTrial trial) {
    if (options_.on_trial) {
      options_.on_trial(trial);
    }
    found_.trials.push_back(std::move(trial));
  }

  // The length of a trial in which the strictest share can be shown.
  absl::Duration LengthAt(double rate, absl::Duration least) const {
    const double calls = 1.5 * kNormal95 * kNormal95 * (1 - strictest_) / strictest_;
    return std::min(std::max(least, absl::Seconds(calls / rate)), std::max(least, kLongestTrial));
  }

  absl::StatusOr<RateTrial> Trial(double rate, absl::Duration least) {
    RateTrial trial;
    trial.rate = rate;
    std::vector<Parts> parts(slo_.size());
    for (int run = 0; run < kMostRuns && trial.verdict == Verdict::kUnknown && !UserStopped();
         ++run) {
      BW_ASSIGN_OR_RETURN(trial.report, RunOnce(rate, LengthAt(rate, least)));
      trial.seconds += absl::ToDoubleSeconds(trial.report.elapsed);
      AddParts(trial.report, slo_, parts);
      trial.clauses = Bounds(parts);
      trial.verdict = Judge(trial);
    }
    return trial;
  }

  absl::StatusOr<LoadReport> RunOnce(double rate, absl::Duration length) {
    std::atomic<bool> stop{false};
    LoadOptions load = load_;
    load.rate = rate;
    load.duration = length;
    load.stop = &stop;
    load.on_progress = [&](const LoadReport& report, absl::Duration left) {
      if (load_.on_progress) {
        load_.on_progress(report, left);
      }
      std::vector<Parts> parts(slo_.size());
      AddParts(report, slo_, parts);
      stop =
          stop || UserStopped() || (report.timeline.size() > kPartsToTell && Broken(Bounds(parts)));
    };
    return run_(load);
  }

  static std::vector<ShareBounds> Bounds(const std::vector<Parts>& parts) {
    std::vector<ShareBounds> bounds;
    for (const Parts& each : parts) {
      bounds.push_back(BoundShare(each));
    }
    return bounds;
  }

  bool Broken(const std::vector<ShareBounds>& bounds) const {
    for (size_t i = 0; i < slo_.size(); ++i) {
      if (bounds[i].lower > slo_[i].allowed) {
        return true;
      }
    }
    return false;
  }

  Verdict Judge(const RateTrial& trial) const {
    // Skipped calls: more calls are in flight than the load may have.
    const bool overrun = trial.report.gave_up || trial.report.num_skipped > 0;
    if (overrun || Broken(trial.clauses)) {
      // Latency counts from when a call was due: a client that is late breaks promises by itself.
      const int cpus = static_cast<int>(std::thread::hardware_concurrency());
      return overrun || ClientBottleneck(trial.report, cpus).empty() ? Verdict::kBroken
                                                                     : Verdict::kClient;
    }
    for (size_t i = 0; i < slo_.size(); ++i) {
      if (trial.clauses[i].calls == 0 || trial.clauses[i].upper > slo_[i].allowed) {
        return Verdict::kUnknown;
      }
    }
    return Verdict::kHolds;
  }

  const LoadRunner& run_;
  LoadOptions load_;
  const std::vector<SloClause>& slo_;
  const MaxRateOptions& options_;
  double strictest_ = 0.5;
  MaxRate found_;
};

}  // namespace

ShareBounds BoundShare(absl::Span<const std::pair<int64_t, int64_t>> parts) {
  ShareBounds bounds;
  double faults = 0, calls = 0;
  size_t used = 0;
  for (const auto& [at_fault, all] : parts) {
    faults += static_cast<double>(at_fault);
    calls += static_cast<double>(all);
    used += all > 0 ? 1 : 0;
  }
  bounds.calls = static_cast<int64_t>(calls);
  if (calls == 0) {
    return bounds;
  }
  bounds.share = faults / calls;
  // Wilson's interval.
  const double z2 = kNormal95 * kNormal95;
  const double middle = (bounds.share + z2 / (2 * calls)) / (1 + z2 / calls);
  const double width =
      kNormal95 / (1 + z2 / calls) *
      std::sqrt(bounds.share * (1 - bounds.share) / calls + z2 / (4 * calls * calls));
  bounds.lower = middle - width;
  bounds.upper = middle + width;
  // The interval of the parts' means: a ratio of two sums (Cochran, "Sampling Techniques", 6.4).
  if (used > 1) {
    double squares = 0;
    for (const auto& [at_fault, all] : parts) {
      const double off = static_cast<double>(at_fault) - bounds.share * static_cast<double>(all);
      squares += off * off;
    }
    const auto n = static_cast<double>(used);
    const double error = std::sqrt(squares * n / (n - 1)) / calls;
    bounds.lower = std::min(bounds.lower, bounds.share - StudentT95(used - 1) * error);
    bounds.upper = std::max(bounds.upper, bounds.share + StudentT95(used - 1) * error);
  }
  // None at fault: what is left of Wilson's difference is the arithmetic's error.
  bounds.lower = faults == 0 ? 0 : std::max(0.0, bounds.lower);
  bounds.upper = std::min(1.0, bounds.upper);
  return bounds;
}

absl::StatusOr<MaxRate> FindMaxRate(const LoadRunner& run, const LoadOptions& load,
                                    const std::vector<SloClause>& slo,
                                    const MaxRateOptions& options) {
  for (const SloClause& clause : slo) {
    if (!(clause.allowed > 0 && clause.allowed < 1)) {
      return Invalid(clause.text, ": a share between 0 and 1 can be shown, 0 itself cannot");
    }
  }
  if (slo.empty() || load.replay) {
    return Invalid("a search for the highest rate has a promise and no given times");
  }
  return Search(run, load, slo, options).Run();
}

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
