#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/management_json.h"

namespace beamwright::http {
namespace {

TEST(LogJsonTest, ReadsAndWritesSettings) {
  const auto request = ParseLogBody(R"({"log_info": true, "log_verbose_level": 2, "x": "y"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->settings().at("log_info").bool_param());
  EXPECT_EQ(request->settings().at("log_verbose_level").uint32_param(), 2u);
  EXPECT_EQ(request->settings().at("x").string_param(), "y");
  inference::LogSettingsResponse response;
  (*response.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  (*response.mutable_settings())["log_info"].set_bool_param(true);
  (*response.mutable_settings())["log_file"].set_string_param("a\"b");
  EXPECT_EQ(WriteLogBody(response),
            "{\"log_file\":\"a\\\"b\",\"log_info\":true,\"log_verbose_level\":1}\n");
}

TEST(LogJsonTest, RefusesWhatIsNoSetting) {
  for (const char* wrong : {"", "[]", "{\"a\": null}", "{\"a\": -1}", "{\"a\": 1.5}",
                            "{\"a\": 4294967296}", "{\"a\": [true]}"}) {
    EXPECT_EQ(ParseLogBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace beamwright::http
