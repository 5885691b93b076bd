#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/bundle/bundle_files.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::bundle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(GoldenFileTest, AFileMayBeMissing) {
  const TempFolder temp;
  temp.Write("m/1/model.textproto", "");
  EXPECT_EQ(*ReadGolden(temp.At("m/1")), "");
  EXPECT_EQ(*ReadWarmUp(temp.At("m/1")), "");
  temp.Write("m/1/warmup.jsonl", "{}");
  EXPECT_EQ(*ReadWarmUp(temp.At("m/1")), "{}");
}

// The bundle was meant to have one.
TEST(GoldenFileTest, ALinkThatLeadsNowhereIsAnError) {
  const TempFolder temp;
  temp.Write("m/1/model.textproto", "");
  temp.Link("m/1/golden.jsonl", "nowhere");
  temp.Link("m/1/warmup.jsonl", "nowhere");
  EXPECT_THAT(std::string(ReadGolden(temp.At("m/1")).status().message()),
              AllOf(HasSubstr("cannot open"), HasSubstr("golden.jsonl")));
  EXPECT_THAT(std::string(ReadWarmUp(temp.At("m/1")).status().message()),
              AllOf(HasSubstr("cannot open"), HasSubstr("warmup.jsonl")));
}

}  // namespace
}  // namespace beamwright::bundle
