// What the service answers: golden hypotheses, and the same bits whatever else runs.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <fstream>

#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using ::google::protobuf::Message;
using ::google::protobuf::Struct;

struct Golden {
  std::string source;
  v1::DecodeOptions options;
  v1::Decoded decoded;
};

void Convert(const Message& from, Message& to) {
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(from, &json).ok());
  const auto status = google::protobuf::util::JsonStringToMessage(json, &to);
  ASSERT_TRUE(status.ok()) << status.ToString() << json;
}

std::vector<Golden> ReadGoldens() {
  std::ifstream file(DefaultModel() + "/golden.jsonl");
  std::vector<Golden> goldens;
  for (std::string line; std::getline(file, line);) {
    Struct object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok());
    Golden& golden = goldens.emplace_back();
    golden.source = object.fields().at("source").string_value();
    Convert(object.fields().at("options").struct_value(), golden.options);
    Struct decoded;
    (*decoded.mutable_fields())["hypotheses"] = object.fields().at("hypotheses");
    Convert(decoded, golden.decoded);
  }
  return goldens;
}

void ExpectAlike(const v1::Hypothesis& got, const v1::Hypothesis& want) {
  constexpr double kTolerance = 1e-4;
  EXPECT_THAT(got.tokens(), ::testing::ElementsAreArray(want.tokens()));
  EXPECT_EQ(got.text(), want.text());
  EXPECT_EQ(got.finish_reason(), want.finish_reason());
  EXPECT_NEAR(got.log_prob(), want.log_prob(), kTolerance);
  EXPECT_NEAR(got.score(), want.score(), kTolerance);
  ASSERT_EQ(got.token_log_probs_size(), want.token_log_probs_size());
  for (int i = 0; i < got.token_log_probs_size(); ++i) {
    EXPECT_NEAR(got.token_log_probs(i), want.token_log_probs(i), kTolerance);
  }
}

class DecodeTest : public E2eTest {};

TEST_F(DecodeTest, AnswersAllGoldenRequests) {
  const std::vector<Golden> goldens = ReadGoldens();
  ASSERT_GT(goldens.size(), 50u);
  for (const Golden& golden : goldens) {
    v1::DecodeRequest request = Request({golden.source});
    *request.mutable_options() = golden.options;
    SCOPED_TRACE(request.ShortDebugString());
    const grpc::Status status = Call(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_TRUE(response_.results(0).has_decoded()) << response_.ShortDebugString();
    const v1::Decoded& decoded = response_.results(0).decoded();
    ASSERT_EQ(decoded.hypotheses_size(), golden.decoded.hypotheses_size());
    for (int i = 0; i < decoded.hypotheses_size(); ++i) {
      ExpectAlike(decoded.hypotheses(i), golden.decoded.hypotheses(i));
    }
  }
}

TEST_F(DecodeTest, KnownWordsSoundRight) {
  ASSERT_TRUE(Call(Request({"cat", "speech", "tomato"})).ok());
  EXPECT_EQ(response_.model(), "g2p-en");
  EXPECT_EQ(response_.version(), "1");
  EXPECT_FALSE(response_.numerics().empty());
  ASSERT_EQ(response_.results_size(), 3);
  EXPECT_EQ(response_.results(0).decoded().hypotheses(0).text(), "K AE1 T");
  EXPECT_EQ(response_.results(1).decoded().hypotheses(0).text(), "S P IY1 CH");
  EXPECT_EQ(response_.results(2).decoded().hypotheses(0).text(), "T AH0 M AA1 T OW2");
  EXPECT_EQ(response_.results(0).decoded().source_length(), 3);
}

TEST_F(DecodeTest, TheSameBitsAloneAgainAndAmongFiftyOthers) {
  v1::DecodeRequest alone = Request({"bitwise"});
  alone.mutable_options()->set_beam_size(8);
  alone.mutable_options()->set_n_best(8);
  ASSERT_TRUE(Call(alone).ok());
  const std::string expected = Timeless(response_).results(0).SerializeAsString();
  ASSERT_TRUE(Call(alone).ok());
  EXPECT_EQ(Timeless(response_).results(0).SerializeAsString(), expected);

  std::ifstream words(BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/words-test.txt");
  v1::DecodeRequest many = alone;
  many.clear_sources();
  for (int i = 0; i < 50; ++i) {
    std::string word;
    ASSERT_TRUE(std::getline(words, word));
    many.add_sources()->set_text(word);
  }
  for (const int at : {0, 25, 50}) {
    v1::DecodeRequest batch = many;
    batch.add_sources()->set_text("bitwise");
    std::rotate(batch.mutable_sources()->pointer_begin() + at,
                batch.mutable_sources()->pointer_end() - 1, batch.mutable_sources()->pointer_end());
    ASSERT_EQ(batch.sources(at).text(), "bitwise");
    ASSERT_TRUE(Call(batch).ok());
    EXPECT_EQ(Timeless(response_).results(at).SerializeAsString(), expected) << at;
  }
}

TEST_F(DecodeTest, IdsAndTextOfASourceAreTheSameSource) {
  v1::DecodeRequest request = Request({"cab"});
  v1::TokenIds& ids = *request.add_sources()->mutable_ids();
  for (const char c : {'c', 'a', 'b'}) {
    ids.add_ids(4 + c - 'a');  // line of the letter in source.vocab
  }
  ASSERT_TRUE(Call(request).ok());
  const v1::DecodeResponse answer = Timeless(response_);
  ASSERT_TRUE(answer.results(1).has_decoded()) << answer.results(1).ShortDebugString();
  EXPECT_EQ(answer.results(0).SerializeAsString(), answer.results(1).SerializeAsString());
}

TEST_F(DecodeTest, TheOnlyModelNeedsNoName) {
  v1::DecodeRequest request = Request({"cat"});
  request.clear_model();
  ASSERT_TRUE(Call(request).ok());
  EXPECT_EQ(response_.model(), "g2p-en");
}

TEST_F(DecodeTest, OneBadSourceLeavesTheOthersAlone) {
  ASSERT_TRUE(Call(Request({"cat", "", "dog"})).ok());
  ASSERT_EQ(response_.results_size(), 3);
  EXPECT_EQ(response_.results(0).decoded().hypotheses(0).text(), "K AE1 T");
  EXPECT_EQ(response_.results(1).error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(response_.results(2).has_decoded());
}

TEST_F(DecodeTest, UnknownCharactersAreFlagged) {
  ASSERT_TRUE(Call(Request({"c\xC3\xA9t\xE2\x82\xAC"})).ok());
  ASSERT_TRUE(response_.results(0).has_decoded()) << response_.ShortDebugString();
  EXPECT_THAT(response_.results(0).decoded().unknown_positions(), ::testing::ElementsAre(1, 3));
}

TEST_F(DecodeTest, TheModelsDefaultsAndTheFieldsOwnApply) {
  v1::DecodeRequest spelled = Request({"default"});
  spelled.mutable_options()->set_beam_size(4);
  spelled.mutable_options()->set_n_best(1);
  spelled.mutable_options()->set_stop(v1::STOP_MODE_SAFE);
  spelled.mutable_options()->set_length_penalty(v1::LENGTH_PENALTY_NONE);
  ASSERT_TRUE(Call(spelled).ok());
  const std::string expected = Timeless(response_).SerializeAsString();
  ASSERT_TRUE(Call(Request({"default"})).ok());
  EXPECT_EQ(Timeless(response_).SerializeAsString(), expected);
}

}  // namespace
}  // namespace beamwright::e2e
