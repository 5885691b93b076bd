#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/serving/metrics.h"

namespace beamwright::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLoads[] = "beamwright_model_load_seconds";

TEST(BucketsTest, AFamilyTakesItsBounds) {
  Buckets buckets;
  EXPECT_TRUE(buckets.Set(absl::StrCat(kLoads, "=0.5,2,1e3")).ok());
  EXPECT_THAT(buckets.Of(kLoads), ElementsAre(0.5, 2, 1000));
  EXPECT_TRUE(buckets.Set(absl::StrCat(kLoads, "=7")).ok());
  Metrics metrics(buckets);
  metrics.CountLoad("m", true, absl::Seconds(6));
  EXPECT_THAT(metrics.Text(), HasSubstr("beamwright_model_load_seconds_bucket{model=\"m\","
                                        "le=\"7\"} 1\n"));
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("le=\"0.5\"")));
}

// They are found by their enumerators.
TEST(MetricFamiliesTest, EachStandsInItsPlace) {
  for (size_t i = 0; i < MeasureFamilies().size(); ++i) {
    EXPECT_EQ(MeasureFamilies()[i].measure, i) << MeasureFamilies()[i].name;
  }
  for (size_t i = 0; i < CountFamilies().size(); ++i) {
    EXPECT_EQ(CountFamilies()[i].count, i) << CountFamilies()[i].name;
  }
}

TEST(BucketsTest, WhatIsRefused) {
  for (const auto& [text, complaint] : {std::pair("", "is not a histogram"),
                                        {"beamwright_no_such=1", "beamwright_step_batch_rows"},
                                        {"beamwright_requests_total=1", "is not a histogram"},
                                        {"=", "finite number"},
                                        {"=1,", "'' is not a finite number"},
                                        {"=1;2", "'1;2' is not a finite number"},
                                        {"=1,inf", "'inf' is not a finite number"},
                                        {"=nan", "'nan' is not a finite number"},
                                        {"=1,1", "1 does not come after 1"},
                                        {"=2,1", "bounds ascend"}}) {
    const std::string whole = text[0] == '=' ? absl::StrCat(kLoads, text) : text;
    Buckets buckets;
    const absl::Status status = buckets.Set(whole);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << whole;
    EXPECT_THAT(std::string(status.message()), HasSubstr(complaint)) << whole;
    EXPECT_EQ(buckets.Of(kLoads), Buckets().Of(kLoads)) << whole;
  }
  std::string many = absl::StrCat(kLoads, "=0");
  for (int i = 1; i <= Buckets::kMaxBounds; ++i) {
    absl::StrAppend(&many, ",", i);
  }
  EXPECT_THAT(std::string(Buckets().Set(many).message()), HasSubstr("at most 100"));
}

}  // namespace
}  // namespace beamwright::serving
