#include "server/serving/availability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AvailabilityTest : public ::testing::Test {
 protected:
  AvailabilityTest() {
    state_.Enter(Phase::kServing);
    ModelPaths paths;
    paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"};
    LoadOptions options;
    options.golden_requests = 0;
    models_ = *ModelRegistry::Load(paths, nullptr, options);
    model_ = models_->AllServed()[0];
  }
  // Follows one that lets a model rest for so long.
  void Follow(absl::Duration pause) {
    quarantine_ = std::make_unique<engine::Quarantine>(engine::QuarantineOptions{3, pause});
    availability_ = std::make_unique<Availability>(*models_, *quarantine_, state_);
    availability_->Observe([this](const std::string& name, bool able) {
      absl::MutexLock lock(&mutex_);
      told_.push_back(absl::StrCat(able ? "+" : "-", name));
    });
  }
  // What was reported since the last time.
  std::vector<std::string> Told() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(told_, {});
  }

  absl::Mutex mutex_;
  std::vector<std::string> told_;
  ServingState state_;
  std::unique_ptr<ModelRegistry> models_;
  ModelPtr model_;
  std::unique_ptr<engine::Quarantine> quarantine_;
  std::unique_ptr<Availability> availability_;
};

TEST_F(AvailabilityTest, AModelInQuarantineCannotServe) {
  Follow(absl::Hours(1));
  EXPECT_THAT(Told(), ElementsAre("+g2p-en", "+"));
  quarantine_->Count(*model_, 0, 2, SteadyNow());
  EXPECT_THAT(Told(), IsEmpty());
  quarantine_->Count(*model_, 0, 1, SteadyNow());
  EXPECT_THAT(Told(), ElementsAre("-g2p-en", "-"));
  EXPECT_FALSE(state_.health().ready);
  // A source that was begun before and is decoded ends it at once.
  quarantine_->Count(*model_, 1, 0, SteadyNow());
  EXPECT_THAT(Told(), ElementsAre("+g2p-en", "+"));
  EXPECT_TRUE(state_.health().ready);
}

TEST_F(AvailabilityTest, TheEndOfAPauseIsToldByItself) {
  Follow(absl::Milliseconds(50));
  quarantine_->Count(*model_, 0, 3, SteadyNow());
  absl::MutexLock lock(&mutex_);
  const auto back = [this] { return told_.back() == "+" && told_.size() == 6; };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&back), absl::Minutes(1)));
  EXPECT_THAT(told_, ElementsAre("+g2p-en", "+", "-g2p-en", "-", "+g2p-en", "+"));
}

// Followers of health get what concerns the server as a whole as well.
TEST_F(AvailabilityTest, NobodyIsReadyUnlessTheServerIs) {
  state_.Enter(Phase::kLoading);
  Follow(absl::Hours(1));
  EXPECT_THAT(Told(), ElementsAre("-g2p-en", "-"));
  state_.Enter(Phase::kServing);
  EXPECT_THAT(Told(), ElementsAre("+g2p-en", "+"));
  state_.SetHangs(true);
  EXPECT_THAT(Told(), ElementsAre("-g2p-en", "-"));
  EXPECT_FALSE(state_.health().live);
  state_.SetHangs(false);
  EXPECT_THAT(Told(), ElementsAre("+g2p-en", "+"));
  state_.Enter(Phase::kLeaving);
  EXPECT_THAT(Told(), ElementsAre("-g2p-en", "-"));
  EXPECT_TRUE(state_.health().live);
}

TEST_F(AvailabilityTest, AModelThatIsUnloadedCannotServe) {
  Follow(absl::Hours(1));
  Told();
  models_->Unload("g2p-en");
  EXPECT_THAT(Told(), ElementsAre("-g2p-en", "-"));
  ASSERT_TRUE(models_->Reload("g2p-en").ok());
  EXPECT_THAT(Told(), ElementsAre("+g2p-en", "+"));
  availability_->Observe(nullptr);
  models_->Unload("g2p-en");
  EXPECT_THAT(Told(), IsEmpty());
}

}  // namespace
}  // namespace beamwright::serving
