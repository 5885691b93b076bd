#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/status/fault.h"
#include "server/http/message_json.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

using ::testing::HasSubstr;

std::string Fault(const std::string& body) {
  v1::DecodeRequest request;
  return std::string(ReadRequest(body, request).message());
}

TEST(ReadRequestTest, TakesEnumsByTheirShortNames) {
  v1::DecodeRequest request;
  ASSERT_TRUE(ReadRequest(R"({"sources": [{"text": "a"}],
                              "options": {"stop": "first", "lengthPenalty": "pow",
                                          "sampling": "SAMPLING_NONE", "word_reward": 0.1}})",
                          request)
                  .ok());
  EXPECT_EQ(request.options().stop(), v1::STOP_MODE_FIRST);
  EXPECT_EQ(request.options().length_penalty(), v1::LENGTH_PENALTY_POW);
  EXPECT_EQ(request.options().sampling(), v1::SAMPLING_NONE);
  EXPECT_EQ(request.options().word_reward(), 0.1f);
  EXPECT_EQ(request.sources(0).text(), "a");
}

TEST(ReadRequestTest, SaysWhichFieldWasMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"beam_size": 5})",
       "'beam_size' is not a field of DecodeRequest; 'options.beam_size' is"},
      {R"({"options": {"beamsize": 5}})",
       "options: 'beamsize' is not a field of DecodeOptions; 'options.beam_size' is"},
      {R"({"source": [{"text": "a"}]})", "'source' is not a field of DecodeRequest; 'sources' is"},
      {R"({"text": "a"})", "'text' is not a field of DecodeRequest; 'sources[].text' is"},
      {R"({"sources": [{"text": "a", "hurray!": 1}]})",
       "sources[0]: 'hurray!' is not a field of Source"},
      {R"({"options": {"stop": "never-ever"}})",
       "options.stop: 'never-ever' is not one of safe, first, count, never, heuristic"},
      {R"({"options": {"stop": true}})",
       "options.stop: is not one of safe, first, count, never, heuristic"},
      {R"({"options": {"beam_size": "five"}})", "options.beam_size: 'five' is not a number"},
      {R"({"options": {"beam_size": 1.5}})", "options.beam_size: 1.5 is not a whole number"},
      {R"({"options": {"renormalize": 1}})", "options.renormalize: is not true or false"},
      {R"({"sources": "a"})", "sources: is not a list"},
      {R"({"sources": ["a"]})", "sources[0]: is not a JSON object"},
      {R"({"sources": [{"text": 7}]})", "sources[0].text: is not a string"},
      {R"({"sources": [{"decoder_inputs": {"memory": {"m": 1}}}]})",
       "sources[0].decoder_inputs.memory['m']: is not a JSON object"},
      {"[]", "the body is not a JSON object"},
      {"{\"sources\": [}", "the body is not JSON: at byte 13: Invalid value."},
      {"", "the body is not JSON: at byte 0: The document is empty."}};
  for (const auto& [body, fault] : cases) {
    EXPECT_EQ(Fault(body), fault) << body;
  }
}

TEST(ReadRequestTest, NamesAllFaultsAtOnce) {
  v1::DecodeRequest request;
  const absl::Status status = ReadRequest(
      R"({"modle": "m", "options": {"stop": "x", "beam_size": "y", "length_penalty": "pow"}})",
      request);
  const status::Faults faults = status::FaultsOf(status);
  ASSERT_EQ(faults.size(), 3u) << status;
  EXPECT_EQ(faults[0].text, "'modle' is not a field of DecodeRequest; 'model' is");
  EXPECT_EQ(faults[1].field, "options.stop");
  EXPECT_EQ(faults[2].field, "options.beam_size");
}

// What protobuf's reader refuses for another reason has its words.
TEST(ReadRequestTest, WhatIsLeftIsSaidByProtobuf) {
  EXPECT_THAT(Fault(R"({"options": {"beam_size": 3000000000}})"),
              HasSubstr("the body is not a valid beamwright.v1.DecodeRequest in JSON form: "));
}

TEST(ReadRequestTest, HostileBodies) {
  EXPECT_NE(Fault(std::string(1 << 20, '[')), "");
  std::string deep;
  for (int i = 0; i < 50000; ++i) {
    deep += "{\"a\":";
  }
  EXPECT_NE(Fault(deep + "1" + std::string(50000, '}')), "");
  EXPECT_THAT(Fault(R"({"sources": [{"text": "a"},]})"), HasSubstr("follows a comma"));
  const std::string long_name = Fault(absl::StrCat("{\"", std::string(1 << 16, 'b'), "\": 1}"));
  EXPECT_LT(long_name.size(), 300u);
  EXPECT_NE(Fault("{\"\xff\xfe\": 1}"), "");
  EXPECT_NE(Fault("{\"beam\\u0000size\": 1}"), "");
  std::string many = "{";
  for (int i = 0; i < 10000; ++i) {
    absl::StrAppend(&many, "\"x", i, "y\": 1, ");
  }
  EXPECT_LT(Fault(many + "\"model\": \"m\"}").size(), 3000u);
}

// A misprint anywhere ends in an error or in what protobuf reads, never in another request.
TEST(ReadRequestTest, AnswersAsProtobufWhereThatAnswers) {
  const std::string body =
      R"({"model": "m", "sources": [{"ids": {"ids": [1, 2, 3]}}], "options": {"beam_size": 4,)"
      R"( "stop": "STOP_MODE_SAFE", "hotwords": [{"text": "x", "bonus": 0.5}]}})";
  std::mt19937 random(3);
  int taken = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string changed = body;
    for (int change = 0; change < 1 + i % 2; ++change) {
      changed[random() % changed.size()] = " {}[],:\"0159aeS_"[random() % 16];
    }
    v1::DecodeRequest own;
    v1::DecodeRequest protobufs;
    const bool ok = ReadRequest(changed, own).ok();
    if (google::protobuf::util::JsonStringToMessage(changed, &protobufs).ok()) {
      if (ok) {  // duplicate members and the like are refused
        EXPECT_EQ(own.SerializeAsString(), protobufs.SerializeAsString()) << changed;
        ++taken;
      }
    } else {
      EXPECT_FALSE(ok) << changed;
    }
  }
  EXPECT_GT(taken, 100);
}

// A Struct takes some 300 bytes for a value of two characters.
TEST(ReadObjectTest, ValuesAreCountedBeforeTheyAreRead) {
  const auto list = [](size_t values) {
    std::string body = R"({"a": [1)";
    for (size_t i = 1; i < values; ++i) {
      body += ",1";
    }
    return body + "]}";
  };
  EXPECT_TRUE(ReadObject(list((1 << 17) - 1)).ok());  // and a name
  EXPECT_THAT(std::string(ReadObject(list(1 << 17)).status().message()), HasSubstr("131072"));
}

TEST(ReadCompletionBodyTest, BiasesAreBounded) {
  const auto body = [](int biases) {
    std::string text = R"({"model": "m", "prompt": "a", "logit_bias": {)";
    for (int i = 0; i < biases; ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ",", "\"", i, "\": -100");
    }
    return text + "}}";
  };
  EXPECT_TRUE(ReadCompletionBody(body(16384)).ok()) << ReadCompletionBody(body(16384)).status();
  EXPECT_THAT(std::string(ReadCompletionBody(body(16385)).status().message()),
              HasSubstr("logit_bias: has 16385 tokens; at most 16384 are allowed"));
}

TEST(ReadCompletionBodyTest, SomeUnknownMembersAreNamedAndNotAll) {
  std::string body = R"({"model": "m", "prompt": "a")";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&body, ",\"x", i, "\": 1");
  }
  const status::Faults faults = status::FaultsOf(ReadCompletionBody(body + "}").status());
  EXPECT_EQ(faults.size(), 20u);
}

}  // namespace
}  // namespace beamwright::http
