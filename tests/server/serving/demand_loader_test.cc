#include "server/serving/demand_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "engine/status/fault.h"
#include "ops/base/steady_time.h"
#include "server/serving/model_registry.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::serving {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] = BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1";

// Copies of one model in folders "a" and so on, which are their names. Models are loaded on demand.
class DemandLoaderTest : public ::testing::Test {
 protected:
  void Add(const std::string& name) {
    const fs::path path = temp_.At(name + "/1");
    fs::create_directories(path);
    fs::copy(kModel, path);
    fs::remove(path / "MANIFEST.sha256");
    std::ifstream in(path / "model.textproto");
    std::string config((std::istreambuf_iterator<char>(in)), {});
    config.replace(config.find("\"g2p-en\""), 8, absl::StrCat("\"", name, "\""));
    std::ofstream(path / "model.textproto", std::ios::trunc) << config;
    bytes_ = bundle::StateOf(path.string()).bytes;
  }
  // With room for the files of `num_models` models.
  void Load(int num_models) {
    LoadOptions options;
    options.on_demand = true;
    options.golden_requests = 0;
    options.max_model_bytes = num_models * bytes_ + bytes_ / 2;
    options.evicted = [this](const std::string& model) {
      absl::MutexLock lock(&mutex_);
      evicted_.push_back(model);
    };
    options.observer = [this](const std::string&, bool, absl::Duration) { ++num_loads_; };
    auto registry = ModelRegistry::Load({{temp_.path()}, {}}, nullptr, options);
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
  }
  // Waits for the model, and holds it if it comes.
  absl::StatusOr<ModelPtr> Get(const std::string& name,
                               absl::Duration timeout = absl::InfiniteDuration()) {
    absl::StatusOr<ModelPtr> model(absl::UnknownError("not called"));
    absl::Notification done;
    registry_->Await(name, "", SteadyNow() + timeout, [&](const absl::Status& status) {
      model = status.ok() ? registry_->Lookup(name, "") : status;
      done.Notify();
    });
    done.WaitForNotification();
    return model;
  }
  std::vector<std::string> Evicted() {
    absl::MutexLock lock(&mutex_);
    return evicted_;
  }
  // Names of the models in memory.
  std::vector<std::string> InMemory() const {
    std::vector<std::string> names;
    for (const ModelPtr& model : registry_->AllServed()) {
      names.push_back(model->name());
    }
    return names;
  }

  bundle::TempFolder temp_;
  int64_t bytes_ = 0;
  absl::Mutex mutex_;
  std::vector<std::string> evicted_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> num_loads_{0};  // good or not
  std::unique_ptr<ModelRegistry> registry_;
};

TEST_F(DemandLoaderTest, ACallLoadsItsModelAndTheLeastRecentlyUsedOneLeaves) {
  for (const char* name : {"a", "b", "c"}) {
    Add(name);
  }
  Load(2);
  EXPECT_EQ(registry_->List().size(), 3u);
  for (const v1::ModelSummary& model : registry_->List()) {
    EXPECT_TRUE(model.ready());
    EXPECT_TRUE(model.not_in_memory());
    EXPECT_EQ(model.reason(), "not in memory; the first call loads it");
  }
  EXPECT_THAT(InMemory(), ElementsAre());
  EXPECT_EQ((*Get("a"))->name(), "a");
  EXPECT_EQ((*Get("b"))->version(), "1");
  EXPECT_THAT(InMemory(), ElementsAre("a", "b"));
  ASSERT_TRUE(registry_->Lookup("a", "").ok());  // used after b
  ASSERT_TRUE(Get("c").ok());
  EXPECT_THAT(Evicted(), ElementsAre("b"));
  EXPECT_THAT(InMemory(), ElementsAre("a", "c"));
  EXPECT_EQ(Get("nosuch").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DemandLoaderTest, AModelInUseStaysAndALoadWaitsForOneThatIsIdle) {
  Add("a");
  Add("b");
  Load(1);
  absl::StatusOr<ModelPtr> held = Get("a");
  ASSERT_TRUE(held.ok());
  const absl::Status late = Get("b", absl::Milliseconds(30)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()), HasSubstr("'b' was waiting to be loaded"));
  absl::Notification done;
  registry_->Await("b", "", absl::InfiniteFuture(), [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    done.Notify();
  });
  EXPECT_FALSE(done.HasBeenNotified());
  EXPECT_THAT(Evicted(), ElementsAre());
  held = absl::UnknownError("released");
  done.WaitForNotification();
  EXPECT_THAT(Evicted(), ElementsAre("a"));
}

TEST_F(DemandLoaderTest, EveryCallOfACrowdGetsItsModel) {
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string& name : names) {
    Add(name);
  }
  Load(1);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        const std::string& name = names[static_cast<size_t>((i + round) % 3)];
        const absl::StatusOr<ModelPtr> model = Get(name);
        good += model.ok() && (*model)->name() == name ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 24);
  EXPECT_FALSE(Evicted().empty());
}

TEST_F(DemandLoaderTest, AModelThatFailsIsListedWithTheReasonAndOthersServe) {
  Add("a");
  Add("b");
  std::ofstream(temp_.At("b/1/decoder.xml"), std::ios::trunc) << "no graph";
  Load(2);
  for (int i = 0; i < 2; ++i) {
    const absl::Status failed = Get("b").status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(failed.message()),
                HasSubstr("model 'b' version 1 could not be loaded"));
    EXPECT_THAT(std::string(failed.message()), Not(HasSubstr(temp_.path())));
    const std::optional<absl::Duration> wait = status::RetryAfterOf(failed);
    EXPECT_TRUE(wait.has_value() && *wait > absl::ZeroDuration() && *wait <= absl::Seconds(5));
  }
  EXPECT_EQ(registry_->Lookup("b", "").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(num_loads_, 1);  // and not tried again at once
  EXPECT_TRUE(Get("a").ok());
  for (const v1::ModelSummary& model : registry_->List()) {
    EXPECT_EQ(model.ready(), model.name() == "a");
    EXPECT_EQ(absl::StrContains(model.reason(), "b/1"), model.name() == "b") << model.reason();
  }
}

TEST_F(DemandLoaderTest, AModelLargerThanTheBudgetIsRefusedAtOnce) {
  Add("a");
  Load(0);
  EXPECT_EQ(Get("a").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(registry_->List()[0].reason(), HasSubstr("max-model-bytes"));
}

TEST_F(DemandLoaderTest, CallsForOneModelLoadItOnceAndThoseThatLeaveDisturbNoOther) {
  Add("a");
  Load(1);
  std::atomic<int> num_good{0};
  std::atomic<int> num_late{0};
  absl::BlockingCounter left(8);
  for (int i = 0; i < 8; ++i) {
    const absl::Time deadline = i % 2 == 0 ? absl::InfiniteFuture() : SteadyNow();
    registry_->Await("a", "", deadline, [&](const absl::Status& status) {
      num_good += status.ok() ? 1 : 0;
      num_late += absl::IsDeadlineExceeded(status) ? 1 : 0;
      left.DecrementCount();
    });
  }
  left.Wait();
  EXPECT_EQ(num_good, 4);
  EXPECT_EQ(num_late, 4);
  EXPECT_EQ(num_loads_, 1);
}

TEST_F(DemandLoaderTest, CallsThatWaitAreAnsweredAtTheEnd) {
  Add("a");
  Add("b");
  Load(1);
  const absl::StatusOr<ModelPtr> held = Get("a");
  absl::Notification done;
  registry_->Await("b", "", absl::InfiniteFuture(), [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    done.Notify();
  });
  registry_->EndWaiting();
  done.WaitForNotification();
  EXPECT_EQ(Get("b").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Get("a").ok());  // it is in memory
}

}  // namespace
}  // namespace beamwright::serving
