#include "engine/request/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/status/fault.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

class QuarantineTest : public ::testing::Test {
 protected:
  const DecodeModel& Model() const { return *model_; }

  const std::shared_ptr<const DecodeModel> model_ =
      *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(21), {}));
  Quarantine quarantine_{{3, absl::Seconds(10)}};
};

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
  EXPECT_FALSE(never.TimedOut(Model(), kStart));
  EXPECT_TRUE(never.Check(Model(), kStart).ok());
}

TEST_F(QuarantineTest, RunsThatAreGivenUpInARowTakeAModelOutForAWhile) {
  EXPECT_FALSE(quarantine_.GivenUp(Model(), kStart));
  EXPECT_FALSE(quarantine_.GivenUp(Model(), kStart));
  quarantine_.Decoded(Model());  // in a row
  EXPECT_FALSE(quarantine_.GivenUp(Model(), kStart));
  EXPECT_FALSE(quarantine_.GivenUp(Model(), kStart));
  EXPECT_TRUE(quarantine_.CheckHung(Model(), kStart).ok());
  EXPECT_TRUE(quarantine_.GivenUp(Model(), kStart));
  const absl::Status out = quarantine_.CheckHung(Model(), kStart + absl::Seconds(4));
  EXPECT_EQ(status::RetryAfterOf(out), absl::Seconds(6));
  EXPECT_THAT(out.message(), testing::HasSubstr("does not come to an end"));
  EXPECT_EQ(quarantine_.Check(Model(), kStart + absl::Seconds(4)), out);
  EXPECT_TRUE(quarantine_.CheckHung(Model(), kStart + absl::Seconds(10)).ok());
  EXPECT_TRUE(quarantine_.GivenUp(Model(), kStart + absl::Seconds(11)));  // one more is enough
  quarantine_.Decoded(Model());
  EXPECT_TRUE(quarantine_.Check(Model(), kStart + absl::Seconds(11)).ok());
  EXPECT_TRUE(quarantine_.TimedOut(Model(), kStart + absl::Seconds(12)));
  // After the pause one source that fails is enough, too.
  quarantine_.Count(Model(), 0, 1, kStart + absl::Seconds(30));
  EXPECT_FALSE(quarantine_.Check(Model(), kStart + absl::Seconds(31)).ok());
}

// What was admitted before a model failed too often may end the pause, so the engine runs it.
TEST_F(QuarantineTest, TheEngineRunsWhatWasAdmittedToAModelThatFailed) {
  quarantine_.Count(Model(), 0, 3, kStart);
  EXPECT_FALSE(quarantine_.Check(Model(), kStart).ok());
  EXPECT_TRUE(quarantine_.CheckHung(Model(), kStart).ok());
  quarantine_.Decoded(Model());  // its call has not ended
  EXPECT_FALSE(quarantine_.Check(Model(), kStart).ok());
}

TEST_F(QuarantineTest, ObserversHearWhyAModelGoesOutAndThatAPauseChanges) {
  std::vector<std::string> heard;
  quarantine_.Observe([&](const DecodeModel& model, const std::string& why) {
    EXPECT_EQ(&model, &Model());
    heard.push_back(why);
  });
  quarantine_.Count(Model(), 0, 3, kStart);  // out
  quarantine_.Count(Model(), 0, 1, kStart);  // renewed
  quarantine_.Count(Model(), 1, 0, kStart);  // back
  quarantine_.Count(Model(), 1, 0, kStart);
  quarantine_.TimedOut(Model(), kStart);
  quarantine_.Decoded(Model());
  quarantine_.Decoded(Model());
  EXPECT_THAT(heard, testing::ElementsAre("failed 3 times in a row", "", "",
                                          "does not come to an end", ""));
  EXPECT_EQ(quarantine_.BackAt(Model().name(), Model().version()), absl::InfinitePast());
}

}  // namespace
}  // namespace beamwright::engine
