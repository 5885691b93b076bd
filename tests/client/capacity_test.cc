// Against closed forms of queueing theory, which share no code with the simulation.
#include <numeric>

#include "client/load/max_rate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::HasSubstr;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Processor sharing at a constant speed, any sizes: the mean is 1 / (speed (1 - load)).
TEST(CapacityTest, ConstantSpeedIsTheSharedProcessor) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 100}});
  for (const double load : {0.2, 0.5, 0.8}) {
    for (const double spread : {0.0, 0.5}) {
      const auto replica =
          SimulateReplica(curve, {.rate = 100 * load, .spread = spread, .calls = 400'000});
      const double expected = 1 / (100 * (1 - load));
      EXPECT_NEAR(Mean(replica.latencies), expected, 0.06 * expected) << load << " " << spread;
    }
  }
}

// One at a time: M/D/1, whose mean wait is load / (2 speed (1 - load)).
TEST(CapacityTest, OneAtATimeIsTheQueueOfOneServer) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 100}});
  for (const double load : {0.3, 0.7}) {
    const auto replica =
        SimulateReplica(curve, {.rate = 100 * load, .max_in_flight = 1, .calls = 400'000});
    const double expected = 0.01 + load / (2 * 100 * (1 - load));
    EXPECT_NEAR(Mean(replica.latencies), expected, 0.04 * expected) << load;
  }
}

// A call takes its size where none waits: the spread is the sizes' standard deviation.
TEST(CapacityTest, TheSpreadIsTheStandardDeviationOfSizes) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 1}});
  const auto replica =
      SimulateReplica(curve, {.rate = 1e-4, .max_in_flight = 1, .spread = 0.5, .calls = 100'000});
  double squares = 0;
  for (const double latency : replica.latencies) {
    squares += (latency - 1) * (latency - 1);
  }
  EXPECT_NEAR(Mean(replica.latencies), 1, 0.01);
  EXPECT_NEAR(squares / static_cast<double>(replica.latencies.size()), 0.25, 0.01);
}

TEST(CapacityTest, AShareIsReachedByTheFirstCallThatMakesItUp) {
  const SimulatedReplica replica{.latencies = {1, 2, 3}};
  EXPECT_EQ(replica.Within(0.01), 1);
  EXPECT_EQ(replica.Within(0.34), 2);
  EXPECT_EQ(replica.Within(0.5), 2);
  EXPECT_EQ(replica.Within(0.67), 3);
  EXPECT_EQ(replica.Within(1), 3);
}

// A queue that only grows has not grown yet when few calls have come.
TEST(CapacityTest, MoreThanAReplicaCanDoNeedsAnother) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 50}});
  const ReplicaLoad few{.rate = 60, .calls = 5};
  const Goal goal{.seconds = 1, .share = 0.5};
  EXPECT_LT(SimulateReplica(curve, few).Within(goal.share), goal.seconds);
  EXPECT_EQ(*ReplicasFor(curve, few, goal), 2);
}

// Speed in proportion to the calls in flight: no call waits for another.
TEST(CapacityTest, WithSpeedForAllEveryCallTakesItsOwnTime) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 10}, {1000, 10'000}});
  const auto replica = SimulateReplica(curve, {.rate = 500, .calls = 20'000});
  EXPECT_NEAR(replica.latencies.front(), 0.1, 1e-9);
  EXPECT_NEAR(replica.latencies.back(), 0.1, 1e-9);
  // Poisson with mean 50: 73 is the 99.9th percentile.
  EXPECT_NEAR(replica.in_flight, 74, 5);
}

TEST(CapacityTest, TheCurveGoesThroughItsPoints) {
  const ServiceCurve curve = *ServiceCurve::Make({{8, 400}, {2, 100}, {16, 300}});
  EXPECT_EQ(curve.PerSecond(1), 50);
  EXPECT_EQ(curve.PerSecond(2), 100);
  EXPECT_EQ(curve.PerSecond(5), 250);
  EXPECT_EQ(curve.PerSecond(12), 350);
  EXPECT_EQ(curve.PerSecond(100), 300);
  EXPECT_EQ(curve.MostPerSecond(), 400);
}

TEST(CapacityTest, TheFewestReplicasThatDo) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 50}, {8, 300}, {32, 400}});
  const ReplicaLoad total{.rate = 3000, .max_in_flight = 256};
  const Goal goal{.seconds = 0.1, .share = 0.99};
  const int replicas = *ReplicasFor(curve, total, goal);
  const auto share_within = [&](int count) {
    return SimulateReplica(curve, {.rate = total.rate / count, .max_in_flight = 256}).Within(0.99);
  };
  EXPECT_LE(share_within(replicas), 0.1);
  EXPECT_GT(share_within(replicas - 1), 0.1);
  EXPECT_GT(replicas, 3000 / 400);
  EXPECT_LT(replicas, 3000 / 50);
  // A goal that is easier needs no more.
  EXPECT_LE(*ReplicasFor(curve, total, {.seconds = 0.2, .share = 0.99}), replicas);
}

TEST(CapacityTest, SaysWhatCannotBe) {
  const ServiceCurve curve = *ServiceCurve::Make({{1, 50}});
  EXPECT_THAT(ReplicasFor(curve, {.rate = 1}, {.seconds = 0.01}).status().message(),
              HasSubstr("a call that is alone takes 20 ms"));
  EXPECT_THAT(ServiceCurve::Make({}).status().message(), HasSubstr("at least one"));
  EXPECT_THAT(ServiceCurve::Make({{0, 5}}).status().message(), HasSubstr("at least 1 call"));
  EXPECT_THAT(ServiceCurve::Make({{1, -5}}).status().message(), HasSubstr("a rate above 0"));
  EXPECT_THAT(ServiceCurve::Make({{4, 5}, {4, 6}}).status().message(), HasSubstr("two points"));
}

}  // namespace
}  // namespace beamwright::client
