#include "server/serving/serving_state.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace beamwright::serving {
namespace {

TEST(ServingStateTest, PhasesDecideWhatIsAcceptedAndWhatIsReady) {
  ServingState state;
  for (const auto& [phase, accepts, ready] :
       {std::tuple(Phase::kLoading, false, false), std::tuple(Phase::kServing, true, true),
        std::tuple(Phase::kLeaving, true, false), std::tuple(Phase::kRefusing, false, false),
        std::tuple(Phase::kEnding, false, false)}) {
    state.Enter(phase);
    EXPECT_EQ(state.CheckAccepting().ok(), accepts) << static_cast<int>(phase);
    EXPECT_EQ(absl::IsUnavailable(state.CheckAccepting()), !accepts) << static_cast<int>(phase);
    EXPECT_EQ(state.health().ready, ready) << static_cast<int>(phase);
  }
}

TEST(ServingStateTest, WaitsForTheLastOpenCall) {
  ServingState state;
  EXPECT_TRUE(state.WaitUntilAnswered(absl::InfiniteDuration()));
  std::optional<ServingState::OpenCall> first(std::in_place, state);
  std::optional<ServingState::OpenCall> second(std::in_place, state);
  first.reset();
  EXPECT_FALSE(state.WaitUntilAnswered(absl::ZeroDuration()));
  std::thread end([&second] { second.reset(); });
  EXPECT_TRUE(state.WaitUntilAnswered(absl::InfiniteDuration()));
  end.join();
}

}  // namespace
}  // namespace beamwright::serving
