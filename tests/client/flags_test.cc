// Flags from descriptors, on a message of every kind of field: what DecodeOptions does not have
// today it may have tomorrow.
#include "client/cli/flags.h"

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "beamwright/v1/rule.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFile[] = R"pb(
  name: "kinds.proto"
  package: "kinds"
  syntax: "proto3"
  enum_type {
    name: "Shape"
    value { name: "SHAPE_UNSPECIFIED" number: 0 }
    value { name: "SHAPE_ROUND" number: 1 }
    value { name: "SHAPE_VERY_FLAT" number: 2 }
  }
  message_type {
    name: "Inner"
    field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "x" }
  }
  message_type {
    name: "All"
    field {
      name: "big_count"
      number: 1
      type: TYPE_INT64
      label: LABEL_OPTIONAL
      options {
        [beamwright.v1
             .rule] { minimum: 2 maximum: 9 unit: "rows" default_value: "3" text: "Counts." }
      }
    }
    field { name: "u32" number: 2 type: TYPE_UINT32 label: LABEL_OPTIONAL }
    field { name: "u64" number: 3 type: TYPE_UINT64 label: LABEL_OPTIONAL }
    field {
      name: "ratio"
      number: 4
      type: TYPE_DOUBLE
      label: LABEL_OPTIONAL
      options {
        [beamwright.v1.rule] { minimum: -1 }
      }
    }
    field { name: "small" number: 5 type: TYPE_FLOAT label: LABEL_OPTIONAL }
    field { name: "on" number: 6 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "name" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL }
    field {
      name: "shape"
      number: 8
      type: TYPE_ENUM
      type_name: ".kinds.Shape"
      label: LABEL_OPTIONAL
    }
    field { name: "shape_alpha" number: 9 type: TYPE_FLOAT label: LABEL_OPTIONAL }
    field {
      name: "inner"
      number: 10
      type: TYPE_MESSAGE
      type_name: ".kinds.Inner"
      label: LABEL_OPTIONAL
    }
    field { name: "ids" number: 11 type: TYPE_INT32 label: LABEL_REPEATED }
    field { name: "words" number: 12 type: TYPE_STRING label: LABEL_REPEATED }
    field {
      name: "phrases"
      number: 13
      type: TYPE_MESSAGE
      type_name: ".kinds.Phrase"
      label: LABEL_REPEATED
    }
  }
  message_type {
    name: "Phrase"
    field { name: "text" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "weight" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  }
)pb";

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kFile, &file));
    // Explicit presence, as protoc gives it to `optional`.
    auto* all = file.mutable_message_type(1);
    for (auto& field : *all->mutable_field()) {
      if (field.label() == google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL &&
          field.type() != google::protobuf::FieldDescriptorProto::TYPE_MESSAGE) {
        field.set_proto3_optional(true);
        field.set_oneof_index(all->oneof_decl_size());
        all->add_oneof_decl()->set_name("_" + field.name());
      }
    }
    const auto* built = pool_.BuildFile(file);
    EXPECT_NE(built, nullptr);
    prototype_ = factory_.GetPrototype(built->FindMessageTypeByName("All"));
  }

  // The message as text on one line, or the error.
  std::string Parse(std::vector<std::string> arguments) {
    std::unique_ptr<google::protobuf::Message> message(prototype_->New());
    CLI::App app;
    AddMessageFlags(app, "Options", *message);
    std::reverse(arguments.begin(), arguments.end());  // what CLI11 wants of a vector
    try {
      app.parse(arguments);
    } catch (const CLI::Error& error) {
      return error.what();
    }
    return message->ShortDebugString();
  }

  google::protobuf::DescriptorPool pool_{google::protobuf::DescriptorPool::generated_pool()};
  google::protobuf::DynamicMessageFactory factory_;
  const google::protobuf::Message* prototype_ = nullptr;
};

TEST_F(FlagsTest, EveryKindOfFieldCanBeSet) {
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(Parse({"--big-count", "5", "--u32", "4000000000", "--u64", "18446744073709551615"}),
            "big_count: 5 u32: 4000000000 u64: 18446744073709551615");
  EXPECT_EQ(Parse({"--ratio", "-0.5", "--small=1e-3"}), "ratio: -0.5 small: 0.001");
  EXPECT_EQ(Parse({"--on"}), "on: true");
  EXPECT_EQ(Parse({"--no-on"}), "on: false");
  EXPECT_EQ(Parse({"--name", "a b"}), "name: \"a b\"");
  EXPECT_EQ(Parse({"--shape", "very-flat"}), "shape: SHAPE_VERY_FLAT");
  EXPECT_EQ(Parse({"--inner", R"({"x": 4})"}), "inner { x: 4 }");
  EXPECT_EQ(Parse({"--ids", "4", "--ids", "-5", "--words", "a", "--words", "b"}),
            "ids: 4 ids: -5 words: \"a\" words: \"b\"");
}

TEST_F(FlagsTest, AMessageWithTextIsGivenAsItsText) {
  EXPECT_EQ(Parse({"--phrases", "a b", "--phrases", "c:2.5", "--phrases", "d: e"}),
            "phrases { text: \"a b\" } phrases { text: \"c\" weight: 2.5 } "
            "phrases { text: \"d: e\" }");
  EXPECT_EQ(Parse({"--phrases", R"({"text": "x:1"})"}), "phrases { text: \"x:1\" }");
}

TEST_F(FlagsTest, AnEnumsExponentIsSetWithIt) {
  EXPECT_EQ(Parse({"--shape", "round:0.5"}), "shape: SHAPE_ROUND shape_alpha: 0.5");
  EXPECT_THAT(Parse({"--shape", "round:0.5", "--shape-alpha", "1"}), HasSubstr("given twice"));
  EXPECT_THAT(Parse({"--shape", "round:x"}), HasSubstr("--shape-alpha: \"x\" is not a number"));
}

TEST_F(FlagsTest, BadValuesAreNamedWithWhatIsAllowed) {
  for (const char* value : {"1", "10", "99999999999999999999"}) {
    EXPECT_EQ(Parse({"--big-count", value}),
              std::string("--big-count: \"") + value + "\" is out of range: 2 to 9 rows");
  }
  for (const char* value : {"", "x", "3.5", "3 4", "0x3"}) {
    EXPECT_EQ(Parse({"--big-count=" + std::string(value), "--on"}).substr(0, 13), "--big-count: ")
        << value;
  }
  EXPECT_THAT(Parse({"--ratio", "-1.5"}), HasSubstr("out of range: at least -1"));
  for (const char* value : {"nan", "inf"}) {
    EXPECT_THAT(Parse({"--ratio", value}), HasSubstr("out of range")) << value;
  }
  EXPECT_THAT(Parse({"--small", "1e300"}), HasSubstr("too large for a 32-bit float"));
  EXPECT_THAT(Parse({"--u32", "-1"}), HasSubstr("--u32"));
  for (const char* value : {"square", "SHAPE_ROUND", "unspecified", "Round"}) {
    EXPECT_THAT(Parse({"--shape", value}), HasSubstr("is not known: round or very-flat")) << value;
  }
  EXPECT_THAT(Parse({"--inner", "{x"}), HasSubstr("not a Inner in protobuf's JSON form"));
  EXPECT_THAT(Parse({"--on", "--no-on"}), HasSubstr("given twice"));
}

TEST_F(FlagsTest, HelpComesFromTheRule) {
  std::unique_ptr<google::protobuf::Message> message(prototype_->New());
  CLI::App app;
  AddMessageFlags(app, "Options", *message);
  EXPECT_EQ(app.get_option("--big-count")->get_description(), "Counts. [2 to 9 rows; default 3]");
  EXPECT_THAT(app.get_option("--shape")->get_description(), HasSubstr("round or very-flat"));
}

TEST(DurationFlagTest, WantsAUnit) {
  const auto parse = [](const std::string& text) -> std::string {
    CLI::App app;
    absl::Duration value = absl::Seconds(1);
    AddDurationFlag(app, {"--wait", "G", "Waits."}, absl::Milliseconds(1), absl::Hours(1), value);
    try {
      app.parse(std::vector<std::string>{"--wait=" + text});
    } catch (const CLI::Error& error) {
      return error.what();
    }
    return absl::FormatDuration(value);
  };
  EXPECT_EQ(parse("500ms"), "500ms");
  EXPECT_EQ(parse("2m"), "2m");
  EXPECT_EQ(parse("2.5"), "--wait: \"2.5\" has no unit; write 2.5s, 2.5ms or 2.5m");
  for (const char* bad : {"0", "-1s", "2h", "inf", "nan", "soon", "10 s"}) {
    EXPECT_THAT(parse(bad), AllOf(HasSubstr("--wait"), HasSubstr("1ms to 1h"))) << bad;
  }
}

}  // namespace
}  // namespace beamwright::client
