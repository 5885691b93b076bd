#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/management_json.h"

namespace beamwright::http {
namespace {

using ::testing::HasSubstr;

TEST(RepositoryJsonTest, AnIndexMayBeOfWhatIsReady) {
  EXPECT_TRUE(ParseIndexBody(R"({"ready": true})")->ready());
  for (const char* all : {"", "{}", R"({"ready": false})"}) {
    EXPECT_FALSE(ParseIndexBody(all)->ready()) << all;
  }
  for (const char* wrong : {"ready", "[]", "{", R"({"ready": "yes"})"}) {
    EXPECT_EQ(ParseIndexBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(RepositoryJsonTest, ParametersOfLoadsAreRead) {
  const auto parameters =
      ParseControlBody(R"({"parameters": {"config": "{}", "unload_dependents": true, "n": 3}})");
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(parameters->at("config").string_param(), "{}");
  EXPECT_TRUE(parameters->at("unload_dependents").bool_param());
  EXPECT_EQ(parameters->at("n").int64_param(), 3);
  for (const char* none : {"", "{}", R"({"parameters": {}})"}) {
    EXPECT_TRUE(ParseControlBody(none)->empty()) << none;
  }
  for (const char* wrong :
       {"garbage", "[]", R"({"parameters": []})", R"({"parameters": {"a": 1.5}})"}) {
    EXPECT_EQ(ParseControlBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(std::string(ParseControlBody(R"({"parameters": {"config": {}}})").status().message()),
              HasSubstr("parameters['config']: is not a bool"));
}

}  // namespace
}  // namespace beamwright::http
