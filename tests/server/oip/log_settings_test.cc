#include "server/oip/log_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

namespace beamwright::oip {
namespace {

using ::testing::HasSubstr;
using Request = inference::LogSettingsRequest;

class LogSettingsTest : public ::testing::Test {
 protected:
  LogSettingsTest() : before_(spdlog::get_level()) { spdlog::set_level(spdlog::level::info); }
  ~LogSettingsTest() override { spdlog::set_level(before_); }

  static Request Set(const std::string& name, bool value) {
    Request request;
    (*request.mutable_settings())[name].set_bool_param(value);
    return request;
  }

  const spdlog::level::level_enum before_;
};

TEST_F(LogSettingsTest, TheLeastSevereThatIsOnDecides) {
  ASSERT_TRUE(ChangeLogSettings(Set("log_info", false)).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::warn);
  Request errors = Set("log_warning", false);
  (*errors.mutable_settings())["log_info"].set_bool_param(false);
  ASSERT_TRUE(ChangeLogSettings(errors).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::err);
  ASSERT_TRUE(ChangeLogSettings(Set("log_error", false)).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::off);
  Request verbose;
  (*verbose.mutable_settings())["log_verbose_level"].set_uint32_param(2);
  ASSERT_TRUE(ChangeLogSettings(verbose).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::debug);
  // Debug messages off again; the rest is as verbose had it.
  (*verbose.mutable_settings())["log_verbose_level"].set_uint32_param(0);
  ASSERT_TRUE(ChangeLogSettings(verbose).ok());
  EXPECT_EQ(spdlog::get_level(), spdlog::level::info);
}

TEST_F(LogSettingsTest, TellsWhatIsOn) {
  spdlog::set_level(spdlog::level::warn);
  inference::LogSettingsResponse response;
  TellLogSettings(response);
  EXPECT_TRUE(response.settings().at("log_error").bool_param());
  EXPECT_TRUE(response.settings().at("log_warning").bool_param());
  EXPECT_FALSE(response.settings().at("log_info").bool_param());
  EXPECT_EQ(response.settings().at("log_verbose_level").uint32_param(), 0u);
}

TEST_F(LogSettingsTest, WhatIsWrongChangesNothing) {
  const auto refused = [](const Request& request, absl::StatusCode code) {
    const absl::Status status = ChangeLogSettings(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(spdlog::get_level(), spdlog::level::info);
    return std::string(status.message());
  };
  EXPECT_THAT(refused(Set("log_everything", true), absl::StatusCode::kInvalidArgument),
              HasSubstr("there is no 'log_everything'"));
  EXPECT_THAT(refused(Set("log_verbose_level", true), absl::StatusCode::kInvalidArgument),
              HasSubstr("'log_verbose_level' must be a whole number"));
  Request text;
  (*text.mutable_settings())["log_info"].set_string_param("no");
  EXPECT_THAT(refused(text, absl::StatusCode::kInvalidArgument), HasSubstr("must be a bool"));
  EXPECT_THAT(refused(Set("log_file", true), absl::StatusCode::kUnimplemented),
              HasSubstr("when the server starts"));
}

}  // namespace
}  // namespace beamwright::oip
