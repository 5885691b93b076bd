// Memory that runs out in the middle of the engine's work: who needed it is refused, everybody gets
// an answer, and the engine goes on as if nothing had been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "engine/status/fault.h"
#include "include/beamwright/engine.h"
#include "ops/base/fault_point.h"
#include "tests/engine/attention_bundle.h"
#include "tests/engine/fused_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::AttentionBundle;
using engine_testing::FusedBundle;
using engine_testing::RandomTable;

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

void FailAt(const std::string& point, int passage) {
  absl::MutexLock lock(&mutex);
  fault_point = point;
  passages = passage;
}

// Holds the engine's thread behind an encoder run until all is asked, so that all requests step
// together.
class AllTogether : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {
    absl::MutexLock lock(&held_mutex_);
    const auto go_on = [this]() ABSL_SHARED_LOCKS_REQUIRED(held_mutex_) { return !holds_; };
    is_held_ = holds_;
    held_mutex_.Await(absl::Condition(&go_on));
  }
  void OnStep(const DecodeModel&, const StepFacts&) override {}
  void Hold(bool holds) {
    absl::MutexLock lock(&held_mutex_);
    holds_ = holds;
  }
  void WaitUntilHeld() {
    absl::MutexLock lock(&held_mutex_);
    held_mutex_.Await(absl::Condition(&is_held_));
  }

 private:
  absl::Mutex held_mutex_;
  bool holds_ ABSL_GUARDED_BY(held_mutex_) = false;
  bool is_held_ ABSL_GUARDED_BY(held_mutex_) = false;
};

// Models, threads and requests of a test, and where memory runs out in it.
struct Work {
  const char* point;
  int num_threads;
  int num_requests;
  int beam_size;
  int last_passage;  // each up to it lacks memory once
  bundle::Bundle (*bundle)();
};

class OutOfMemoryTest : public ::testing::TestWithParam<Work> {
 protected:
  OutOfMemoryTest() {
    fault_hook = Fault;
    EngineOptions options;
    options.num_threads = GetParam().num_threads;
    options.max_rows = GetParam().num_requests * GetParam().beam_size;
    options.observer = &together_;
    engine_ = *Engine::Start(options);
    model_ = *DecodeModel::Compile(GetParam().bundle());
    options_.set_beam_size(GetParam().beam_size);
    options_.set_max_length(6);
    options_.set_stop(v1::STOP_MODE_NEVER);
  }
  ~OutOfMemoryTest() override {
    engine_ = nullptr;
    fault_hook = nullptr;
  }

  static v1::Source Ids(int number) {
    v1::Source source;
    source.mutable_ids()->add_ids(number % 40 + 3);
    source.mutable_ids()->add_ids(2);
    return source;
  }
  static std::string Bytes(v1::Decoded decoded) {
    decoded.clear_queue_ms();
    decoded.clear_compute_ms();
    return decoded.SerializeAsString();
  }

  // All at once.
  std::vector<absl::StatusOr<v1::Decoded>> DecodeAll() {
    std::vector<absl::StatusOr<v1::Decoded>> answers(static_cast<size_t>(GetParam().num_requests));
    absl::BlockingCounter left(GetParam().num_requests);
    together_.Hold(true);
    for (size_t i = 0; i < answers.size(); ++i) {
      engine_->Decode(model_, Ids(static_cast<int>(i)), options_, {},
                      [&, i](absl::StatusOr<v1::Decoded> decoded) {
                        answers[i] = std::move(decoded);
                        left.DecrementCount();
                      });
    }
    together_.Hold(false);
    left.Wait();
    return answers;
  }

  AllTogether together_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const DecodeModel> model_;
  v1::DecodeOptions options_;
};

TEST_P(OutOfMemoryTest, EverybodyIsAnsweredAndTheEngineGoesOn) {
  std::vector<std::string> expected;
  for (int i = 0; i < GetParam().num_requests; ++i) {
    expected.push_back(Bytes(*engine_->DecodeAndWait(model_, Ids(i), options_)));
  }
  int refused = 0;
  for (int passage = 1; passage <= GetParam().last_passage; ++passage) {
    FailAt(GetParam().point, passage);
    const std::vector<absl::StatusOr<v1::Decoded>> answers = DecodeAll();
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok()) {
        EXPECT_EQ(Bytes(*answers[i]), expected[i]);
      } else {
        EXPECT_EQ(answers[i].status(), status::OutOfMemory());
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
  FailAt("", 0);
  EXPECT_EQ(Bytes(*engine_->DecodeAndWait(model_, Ids(0), options_)), expected[0]);
  engine_->Drain();
  EXPECT_EQ(engine_->load().running, 0);
  EXPECT_EQ(engine_->load().rows, 0);
  EXPECT_EQ(engine_->load().bytes, 0);
}

bundle::Bundle Fused() { return FusedBundle({1, v1::ENSEMBLE_MEAN_LOG_PROBS}); }
bundle::Bundle Attending() { return AttentionBundle(RandomTable(23)); }

INSTANTIATE_TEST_SUITE_P(Points, OutOfMemoryTest,
                         ::testing::Values(Work{"engine.accept", 1, 3, 3, 4, Fused},
                                           Work{"engine.encode", 1, 3, 3, 4, Fused},
                                           Work{"engine.encode", 2, 3, 3, 4, Fused},
                                           Work{"engine.step", 1, 3, 3, 4, Fused},
                                           Work{"engine.reply", 1, 3, 3, 4, Fused}));
// What no exception can leave by itself: requests that attend to their sources side by side, and
// rows that are scanned side by side. Either takes many of them.
INSTANTIATE_TEST_SUITE_P(ParallelParts, OutOfMemoryTest,
                         ::testing::Values(Work{"parallel.part", 2, 50, 3, 12, Attending},
                                           Work{"parallel.part", 2, 50, 100, 4, Fused}));

// Sources of different lengths, encoded side by side: where one has no memory the others have their
// answers.
TEST(OutOfMemory, EncoderRunsSideBySideFailEachForItself) {
  AllTogether together;
  EngineOptions options;
  options.num_threads = 2;
  options.observer = &together;
  const auto engine = *Engine::Start(options);
  const std::shared_ptr<const DecodeModel> model = *DecodeModel::Compile(Attending());
  v1::DecodeOptions search;
  search.set_beam_size(2);
  search.set_max_length(4);
  together.Hold(true);
  constexpr int kSources = 6;
  std::atomic<int> refused = 0;
  absl::BlockingCounter left(kSources + 1);
  for (int length = 0; length <= kSources; ++length) {
    v1::Source source;
    for (int i = 0; i < std::max(length, 1); ++i) {
      source.mutable_ids()->add_ids(3);
    }
    engine->Decode(model, source, search, {}, [&](const absl::StatusOr<v1::Decoded>& decoded) {
      refused += decoded.ok() ? 0 : 1;
      EXPECT_TRUE(decoded.ok() || decoded.status() == status::OutOfMemory()) << decoded.status();
      left.DecrementCount();
    });
    if (length == 0) {
      together.WaitUntilHeld();
    }
  }
  fault_hook = Fault;
  FailAt("engine.encode", 3);
  together.Hold(false);
  left.Wait();
  engine->Drain();
  fault_hook = nullptr;
  FailAt("", 0);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(engine->load().bytes, 0);
}

}  // namespace
}  // namespace beamwright::engine
