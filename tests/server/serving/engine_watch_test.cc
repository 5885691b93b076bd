#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "server/serving/server_threads.h"

namespace beamwright::serving {
namespace {

TEST(EngineWatchTest, TellsWhenTheEngineHangsAndWhenItComesRoundAgain) {
  std::atomic<int64_t> stalled_ms{0};
  ServingState state;
  state.Enter(Phase::kServing);
  absl::Mutex mutex;
  int changes = 0;
  state.Observe([&] {
    absl::MutexLock lock(&mutex);
    ++changes;
  });
  const auto wait_for = [&](int count) {
    absl::MutexLock lock(&mutex);
    const auto are_told = [&] { return changes >= count; };
    mutex.Await(absl::Condition(&are_told));
    return changes == count;
  };
  {
    const EngineWatch watch([&] { return absl::Milliseconds(stalled_ms.load()); },
                            absl::Milliseconds(20), state);
    EXPECT_TRUE(state.health().live);
    stalled_ms = 21;
    EXPECT_TRUE(wait_for(1));
    EXPECT_FALSE(state.health().live);
    EXPECT_FALSE(state.health().ready);
    EXPECT_TRUE(state.health().started);
    stalled_ms = 20;
    EXPECT_TRUE(wait_for(2));
    EXPECT_TRUE(state.health().ready);
    stalled_ms = 1000;
    EXPECT_TRUE(wait_for(3));
  }
  EXPECT_TRUE(state.health().live);  // no watch looks any more
}

}  // namespace
}  // namespace beamwright::serving
