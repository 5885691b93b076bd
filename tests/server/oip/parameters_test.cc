#include "server/oip/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace beamwright::oip
