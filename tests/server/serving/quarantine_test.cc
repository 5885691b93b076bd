#include "server/serving/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/status/error_details.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

class QuarantineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ModelPaths paths;
    paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"};
    model_ = new ModelPtr((*ModelRegistry::Load(paths))->AllServed()[0]);
  }
  static void TearDownTestSuite() { delete model_; }
  static const engine::DecodeModel& Model() { return **model_; }

  static ModelPtr* model_;
  Quarantine quarantine_{{3, absl::Seconds(10)}};
};

ModelPtr* QuarantineTest::model_ = nullptr;

TEST_F(QuarantineTest, FailuresInARowTakeAModelOutForAWhile) {
  quarantine_.Count(Model(), 0, 2, kStart);
  EXPECT_TRUE(quarantine_.Check(Model(), kStart).ok());
  quarantine_.Count(Model(), 0, 1, kStart);
  const absl::Status out = quarantine_.Check(Model(), kStart + absl::Seconds(4));
  EXPECT_EQ(out.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::ReasonOf(out), status::reason::kQuarantined);
  EXPECT_EQ(status::RetryAfterOf(out), absl::Seconds(6));
  // It may try again, and one failure more is enough to be out.
  EXPECT_TRUE(quarantine_.Check(Model(), kStart + absl::Seconds(10)).ok());
  quarantine_.Count(Model(), 0, 1, kStart + absl::Seconds(11));
  EXPECT_FALSE(quarantine_.Check(Model(), kStart + absl::Seconds(20)).ok());
  quarantine_.Count(Model(), 1, 0, kStart + absl::Seconds(22));
  EXPECT_TRUE(quarantine_.Check(Model(), kStart + absl::Seconds(22)).ok());
}

// One client's poison does not take a model from others who are served meanwhile.
TEST_F(QuarantineTest, WhatIsDecodedBetweenClearsTheRecord) {
  for (int i = 0; i < 100; ++i) {
    quarantine_.Count(Model(), 0, 2, kStart);
    quarantine_.Count(Model(), 1, 5, kStart);
  }
  EXPECT_TRUE(quarantine_.Check(Model(), kStart).ok());
}

TEST_F(QuarantineTest, ZeroNeverTakesOut) {
  Quarantine never({0, absl::Seconds(10)});
  never.Count(Model(), 0, 1000, kStart);
  EXPECT_TRUE(never.Check(Model(), kStart).ok());
}

}  // namespace
}  // namespace beamwright::serving
