// Memory that runs out in the middle of the engine's work: who needed it is refused, everybody gets
// an answer, and the engine goes on as if nothing had been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/fault_point.h"
#include "server/engine/engine.h"
#include "tests/server/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

// Which passage of which point has no memory; counts down.
absl::Mutex mutex;
std::string fault_point ABSL_GUARDED_BY(mutex);
int passages ABSL_GUARDED_BY(mutex) = 0;

absl::Status Fault(const char* point) {
  absl::MutexLock lock(&mutex);
  if (point == fault_point && --passages == 0) {
    throw std::bad_alloc();
  }
  return absl::OkStatus();
}

class OutOfMemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  OutOfMemoryTest() {
    fault_hook = Fault;
    EngineOptions options;
    options.num_threads = 1;
    engine_ = *Engine::Start(options);
    model_ = *DecodeModel::Compile(engine_testing::FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}));
    options_.set_beam_size(3);
    options_.set_max_length(6);
    options_.set_stop(v1::STOP_MODE_NEVER);
  }
  ~OutOfMemoryTest() override {
    engine_ = nullptr;
    fault_hook = nullptr;
  }

  static void FailAt(const std::string& point, int passage) {
    absl::MutexLock lock(&mutex);
    fault_point = point;
    passages = passage;
  }
  static v1::Source Ids(int first) {
    v1::Source source;
    source.mutable_ids()->add_ids(first);
    source.mutable_ids()->add_ids(2);
    return source;
  }
  static std::string Bytes(v1::Decoded decoded) {
    decoded.clear_queue_ms();
    decoded.clear_compute_ms();
    return decoded.SerializeAsString();
  }

  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const DecodeModel> model_;
  v1::DecodeOptions options_;
};

TEST_P(OutOfMemoryTest, EverybodyIsAnsweredAndTheEngineGoesOn) {
  constexpr int kRequests = 3;
  std::vector<std::string> expected;
  for (int i = 0; i < kRequests; ++i) {
    expected.push_back(Bytes(*engine_->DecodeAndWait(model_, Ids(i + 3), options_)));
  }
  int refused = 0;
  for (int passage = 1; passage <= 4; ++passage) {
    FailAt(GetParam(), passage);
    std::vector<absl::StatusOr<v1::Decoded>> answers(kRequests);
    absl::BlockingCounter left(kRequests);
    for (int i = 0; i < kRequests; ++i) {
      engine_->Decode(model_, Ids(i + 3), options_, {},
                      [&, i](absl::StatusOr<v1::Decoded> decoded) {
                        answers[static_cast<size_t>(i)] = std::move(decoded);
                        left.DecrementCount();
                      });
    }
    left.Wait();
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok()) {
        EXPECT_EQ(Bytes(*answers[i]), expected[i]);
      } else {
        EXPECT_EQ(answers[i].status(), absl::ResourceExhaustedError("out of memory"));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
  FailAt("", 0);
  EXPECT_EQ(Bytes(*engine_->DecodeAndWait(model_, Ids(3), options_)), expected[0]);
  engine_->Drain();
  EXPECT_EQ(engine_->load().running, 0);
  EXPECT_EQ(engine_->load().rows, 0);
  EXPECT_EQ(engine_->load().bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Points, OutOfMemoryTest,
                         ::testing::Values("engine.accept", "engine.encode", "engine.step",
                                           "engine.reply"));

}  // namespace
}  // namespace beamwright::engine
