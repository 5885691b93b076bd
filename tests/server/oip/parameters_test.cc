#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "server/oip/infer.h"
#include "server/oip/service.h"

namespace beamwright::oip {
namespace {

using ::testing::HasSubstr;
using Map = google::protobuf::Map<std::string, inference::InferParameter>;

// A value of the field's type, as a client would send it; how it is set is left to the message.
inference::InferParameter ValueFor(const google::protobuf::FieldDescriptor& field) {
  using google::protobuf::FieldDescriptor;
  inference::InferParameter parameter;
  if (field.is_repeated()) {
    parameter.set_string_param("[]");
    return parameter;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      parameter.set_bool_param(true);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      parameter.set_string_param("text");
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      parameter.set_string_param("{}");
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      // LENGTH_PENALTY_NONE after LENGTH_PENALTY_UNSPECIFIED: "none".
      const std::string zero = field.enum_type()->value(0)->name();
      const std::string one = field.enum_type()->value(1)->name();
      std::string brief = one.substr(zero.rfind("UNSPECIFIED"));
      for (char& c : brief) {
        c = static_cast<char>(tolower(c));
      }
      parameter.set_string_param(brief);
      break;
    }
    default:
      parameter.set_int64_param(2);
  }
  return parameter;
}

// Options that are added to the proto are parameters without code for them.
TEST(ParametersTest, EveryDecodeOptionIsAParameter) {
  const google::protobuf::Descriptor* type = v1::DecodeOptions::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type->field(i);
    Map map;
    map[field.name()] = ValueFor(field);
    const absl::StatusOr<Parameters> parameters = ReadParameters(map);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    if (!field.is_repeated()) {
      EXPECT_TRUE(parameters->options.GetReflection()->HasField(parameters->options, &field))
          << field.name();
    }
  }
}

TEST(ParametersTest, NumbersComeInEveryForm) {
  for (int form = 0; form < 4; ++form) {
    Map map;
    inference::InferParameter& beam = map["beam_size"];
    inference::InferParameter& alpha = map["length_penalty_alpha"];
    switch (form) {
      case 0:
        beam.set_int64_param(6);
        alpha.set_int64_param(2);
        break;
      case 1:
        beam.set_uint64_param(6);
        alpha.set_uint64_param(2);
        break;
      case 2:
        beam.set_double_param(6);
        alpha.set_double_param(2);
        break;
      default:
        beam.set_string_param("6");
        alpha.set_string_param("2.0");
    }
    const absl::StatusOr<Parameters> parameters = ReadParameters(map);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_EQ(parameters->options.beam_size(), 6);
    EXPECT_EQ(parameters->options.length_penalty_alpha(), 2);
  }
}

TEST(ParametersTest, ValuesOfTheWrongKindAreRefusedByName) {
  const auto expect = [](const char* name, auto set, const char* message) {
    Map map;
    set(map[name]);
    const absl::Status status = ReadParameters(map).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << name;
  };
  expect(
      "beam_size", [](auto& p) { p.set_double_param(1.5); }, "takes a whole number");
  expect(
      "beam_size", [](auto& p) { p.set_string_param("many"); }, "takes a whole number");
  expect(
      "beam_size", [](auto& p) { p.set_uint64_param(~uint64_t{0}); }, "whole number");
  expect(
      "beam_size", [](auto& p) { p.set_double_param(1e300); }, "whole number");
  expect(
      "beam_size", [](auto&) {}, "whole number");
  expect(
      "length_penalty", [](auto& p) { p.set_string_param("LENGTH_PENALTY_POW"); },
      "one of none, pow, gnmt");
  expect(
      "length_penalty", [](auto& p) { p.set_string_param("unspecified"); }, "one of none");
  expect(
      "length_penalty", [](auto& p) { p.set_int64_param(1); }, "one of none");
  expect(
      "patience", [](auto& p) { p.set_bool_param(true); }, "takes a number");
  expect(
      "suppress_sequences",
      [](auto& p) { p.set_string_param("[{\"ids\": {\"ids\": [1]}}, null]"); },
      "parameters['suppress_sequences']: [1]: is null");
  expect(
      "timeout", [](auto& p) { p.set_int64_param(-1); }, "parameters['timeout']");
  expect(
      "triton_unknown", [](auto& p) { p.set_bool_param(true); }, "is not known");
}

TEST(ParametersTest, TimeoutIsInMicrosecondsAndZeroIsNone) {
  Map map;
  EXPECT_EQ(ReadParameters(map)->timeout, absl::InfiniteDuration());
  map["timeout"].set_int64_param(1500);
  EXPECT_EQ(ReadParameters(map)->timeout, absl::Microseconds(1500));
  map["timeout"].set_int64_param(0);
  EXPECT_EQ(ReadParameters(map)->timeout, absl::InfiniteDuration());
  EXPECT_EQ(ReadParameters(map)->priority, 0);
  // Triton's clients send unsigned numbers, and its levels may be more than ours.
  for (const auto& [given, meant] : {std::pair(1u, 1), {3u, 3}, {4u, 3}, {4'000'000'000u, 3}}) {
    map["priority"].set_uint64_param(given);
    EXPECT_EQ(ReadParameters(map)->priority, meant);
  }
}

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
