#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "beamwright/v1/decode.pb.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

Value Document() {
  Value value;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(OpenApi(), &value).ok());
  return value;
}

// "a b": member b of member a. The keys of the document hold dots and slashes.
const Value& At(const Value& value, const std::string& path) {
  const Value* at = &value;
  for (const absl::string_view key : absl::StrSplit(path, ' ')) {
    at = &at->struct_value().fields().at(std::string(key));
  }
  return *at;
}

TEST(OpenApiTest, OptionsHaveTheRulesOfTheProto) {
  const Value document = Document();
  const Value& options = At(document, "components schemas beamwright.v1.DecodeOptions properties");
  EXPECT_EQ(options.struct_value().fields_size(), v1::DecodeOptions::descriptor()->field_count());
  EXPECT_EQ(At(options, "beam_size minimum").number_value(), 1);
  EXPECT_EQ(At(options, "beam_size maximum").number_value(), 256);
  EXPECT_EQ(At(options, "beam_size default").number_value(), 4);
  EXPECT_EQ(At(options, "beam_size x-unit").string_value(), "hypotheses");
  EXPECT_EQ(At(options, "beam_size x-group").string_value(), "Search");
  EXPECT_EQ(At(options, "stop default").string_value(), "STOP_MODE_SAFE");
  EXPECT_EQ(At(options, "renormalize default").bool_value(), true);
  EXPECT_EQ(At(options, "beam_size").struct_value().fields().count("x-searches"), 0u);
  const auto& searches = At(options, "recombine x-searches").list_value().values();
  ASSERT_EQ(searches.size(), 2);
  EXPECT_EQ(searches[0].string_value(), "SEARCH_CTC");
  EXPECT_EQ(searches[1].string_value(), "SEARCH_TRANSDUCER");
  EXPECT_EQ(At(options, "suppress_sequences maxItems").number_value(), 1024);
  EXPECT_EQ(At(options, "suppress_sequences items $ref").string_value(),
            "#/components/schemas/beamwright.v1.TargetTokens");
}

// Every reference leads somewhere, and the types are those of protobuf's JSON form.
void CheckReferences(const Value& value, const Value& schemas, int& count) {
  for (const auto& [key, member] : value.struct_value().fields()) {
    if (key == "$ref") {
      absl::string_view name = member.string_value();
      ASSERT_TRUE(absl::ConsumePrefix(&name, "#/components/schemas/")) << member.string_value();
      EXPECT_EQ(schemas.struct_value().fields().count(std::string(name)), 1u) << name;
      ++count;
    }
    CheckReferences(member, schemas, count);
  }
}

TEST(OpenApiTest, TheDocumentIsWhole) {
  const Value document = Document();
  EXPECT_EQ(At(document, "openapi").string_value(), "3.1.0");
  int count = 0;
  CheckReferences(document, At(document, "components schemas"), count);
  EXPECT_GT(count, 30);
  EXPECT_EQ(At(document, "paths").struct_value().fields_size(), 16);
  const std::string body = "requestBody content multipart/form-data schema properties ";
  EXPECT_EQ(At(document, "paths /translate post " + body + "alternatives type").string_value(),
            "integer");
  EXPECT_EQ(
      At(document, "paths /v1/audio/transcriptions post " + body + "file type").string_value(),
      "string");
  EXPECT_EQ(At(document, "paths /v1/models/{model}:decode post operationId").string_value(),
            "Decode");
  EXPECT_EQ(At(document, "components schemas beamwright.v1.Tensor properties shape items type")
                .string_value(),
            "string");
  EXPECT_EQ(At(document, "components schemas beamwright.v1.Tensor properties data contentEncoding")
                .string_value(),
            "base64");
  EXPECT_EQ(At(document,
               "components schemas beamwright.v1.DecoderInputs properties memory "
               "additionalProperties $ref")
                .string_value(),
            "#/components/schemas/beamwright.v1.Tensor");
}

}  // namespace
}  // namespace beamwright::http
