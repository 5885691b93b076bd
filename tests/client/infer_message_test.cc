#include "client/load/infer_message.h"

#include <cstring>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace beamwright::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::DecodeRequest Ids(std::initializer_list<std::initializer_list<int>> sources) {
  v1::DecodeRequest request;
  for (const auto& ids : sources) {
    auto& source = *request.add_sources()->mutable_ids();
    for (const int id : ids) {
      source.add_ids(id);
    }
  }
  return request;
}

absl::StatusOr<inference::ModelInferRequest> FromJson(const std::string& json) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  return InferRequestOf(parsed);
}

TEST(InferMessageTest, SourcesBecomeTensors) {
  const auto ids = InferRequestOf(Ids({{1, 2, 3}, {4}}));
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(InferJson(*ids), R"({"inputs":[{"name":"source_ids","datatype":"INT32","shape":[2,3],)"
                             R"("data":[1,2,3,4,-1,-1]}]})");
  v1::DecodeRequest texts;
  texts.add_sources()->set_text("a \"b\"");
  texts.mutable_options()->set_beam_size(3);
  texts.mutable_options()->set_length_penalty(v1::LENGTH_PENALTY_POW);
  texts.mutable_options()->set_length_penalty_alpha(0.5);
  const auto text = InferRequestOf(texts);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(InferJson(*text), HasSubstr(R"("shape":[1,1],"data":["a \"b\""])"));
  EXPECT_EQ(text->parameters().at("beam_size").int64_param(), 3);
  EXPECT_EQ(text->parameters().at("length_penalty").string_param(), "pow");
  EXPECT_EQ(text->parameters().at("length_penalty_alpha").double_param(), 0.5);
  v1::DecodeRequest features;
  auto& tensor = *features.add_sources()->mutable_features();
  tensor.set_dtype("f32");
  tensor.add_shape(1);
  tensor.add_shape(2);
  const float values[] = {0.5, -2};
  tensor.set_data(std::string(reinterpret_cast<const char*>(values), sizeof(values)));
  EXPECT_EQ(InferJson(*InferRequestOf(features)),
            R"({"inputs":[{"name":"source_features","datatype":"FP32","shape":[1,1,2],)"
            R"("data":[0.5,-2]}]})");
}

TEST(InferMessageTest, OptionsThatHoldMoreAreJson) {
  v1::DecodeRequest request;
  request.add_sources()->set_text("a");
  request.mutable_options()->add_allowed_sequences()->set_text("EH1");
  request.mutable_options()->mutable_suppress_tokens()->set_text("AH0");
  const auto infer = InferRequestOf(request);
  ASSERT_TRUE(infer.ok()) << infer.status();
  EXPECT_EQ(infer->parameters().at("allowed_sequences").string_param(), R"([{"text":"EH1"}])");
  EXPECT_EQ(infer->parameters().at("suppress_tokens").string_param(), R"({"text":"AH0"})");
}

TEST(InferMessageTest, RefusesWhatTheProtocolCannotSay) {
  v1::DecodeRequest mixed = Ids({{1}});
  mixed.add_sources()->set_text("a");
  EXPECT_THAT(std::string(InferRequestOf(mixed).status().message()), HasSubstr("of one kind"));
  v1::DecodeRequest half;
  half.add_sources()->mutable_features()->set_dtype("f16");
  EXPECT_THAT(std::string(InferRequestOf(half).status().message()), HasSubstr("features of f16"));
  EXPECT_FALSE(InferRequestOf(v1::DecodeRequest()).ok());
}

TEST(InferMessageTest, ReadsTheProtocolsJson) {
  const auto infer = FromJson(R"({
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1, 2.5]]},
               {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["\u00e9"]},
               {"name": "b", "datatype": "BOOL", "shape": [2], "data": [true, false]}],
    "outputs": [{"name": "y"}],
    "parameters": {"n": 3, "f": 0.5, "s": "x", "b": true}})");
  ASSERT_TRUE(infer.ok()) << infer.status();
  EXPECT_THAT(infer->inputs(0).contents().fp32_contents(), ElementsAre(1, 2.5));
  EXPECT_THAT(infer->inputs(1).contents().bytes_contents(), ElementsAre("\u00e9"));
  EXPECT_THAT(infer->inputs(2).contents().bool_contents(), ElementsAre(true, false));
  EXPECT_EQ(infer->outputs(0).name(), "y");
  EXPECT_EQ(infer->parameters().at("n").int64_param(), 3);
  EXPECT_EQ(infer->parameters().at("f").double_param(), 0.5);
  for (const auto& [json, message] : {
           std::pair(R"({})", "inputs is empty"),
           std::pair(R"({"inputs": 3})", "inputs is not a list"),
           std::pair(R"({"input": []})", "not \"input\""),
           std::pair(R"({"inputs": [{"name": "x"}]})", "must have name, datatype"),
           std::pair(R"({"inputs": [{"name": "x", "datatype": "FP16", "data": [1]}]})", "FP16"),
           std::pair(R"({"inputs": [{"name": "x", "datatype": "INT32", "data": ["a"]}]})",
                     "not of datatype INT32"),
       }) {
    EXPECT_THAT(std::string(FromJson(json).status().message()), HasSubstr(message)) << json;
  }
}

TEST(InferMessageTest, AnswersOfThisServerHaveTheirBestHypothesis) {
  const auto answer = DecodeResponseOf(absl::string_view(R"({
    "model_name": "m", "model_version": "2", "outputs": [
      {"name": "text", "datatype": "BYTES", "shape": [2, 2], "data": ["a b", "a", "", ""]},
      {"name": "ids", "datatype": "INT32", "shape": [2, 2, 3], "data": [1, 2, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1]},
      {"name": "scores", "datatype": "FP64", "shape": [2, 2], "data": [-0.5, -1, null, null]},
      {"name": "lengths", "datatype": "INT32", "shape": [2, 2], "data": [2, 1, 0, 0]},
      {"name": "num_hypotheses", "datatype": "INT32", "shape": [2, 1], "data": [2, 0]}]})"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->version(), "2");
  ASSERT_EQ(answer->results_size(), 2);
  EXPECT_THAT(answer->results(0).decoded().hypotheses(0).tokens(), ElementsAre(1, 2));
  EXPECT_EQ(answer->results(0).decoded().hypotheses(0).text(), "a b");
  EXPECT_EQ(answer->results(1).decoded().hypotheses_size(), 0);
}

TEST(InferMessageTest, AnswersOfOthersCountAsAnswers) {
  inference::ModelInferResponse response;
  response.add_outputs()->set_name("y");
  EXPECT_EQ(DecodeResponseOf(response).results_size(), 1);
  response.mutable_outputs(0)->add_shape(3);
  EXPECT_EQ(DecodeResponseOf(response).results_size(), 3);
  // Whatever they say of themselves.
  response.mutable_outputs(0)->set_shape(0, int64_t{1} << 60);
  EXPECT_LE(DecodeResponseOf(response).results_size(), 4096);
  response.mutable_outputs(0)->set_shape(0, -7);
  EXPECT_EQ(DecodeResponseOf(response).results_size(), 1);
  auto& ids = *response.add_outputs();
  ids.set_name("ids");
  for (const int64_t extent : {int64_t{1}, int64_t{1}, int64_t{1} << 60}) {
    ids.add_shape(extent);
  }
  auto& lengths = *response.add_outputs();
  lengths.set_name("lengths");
  lengths.mutable_contents()->add_int_contents(2'000'000'000);
  EXPECT_LE(DecodeResponseOf(response).results(0).decoded().hypotheses(0).tokens_size(), 65'536);
  EXPECT_FALSE(DecodeResponseOf(absl::string_view("<html>")).ok());
  EXPECT_FALSE(DecodeResponseOf(absl::string_view("{\"outputs\": 3}")).ok());
  EXPECT_TRUE(DecodeResponseOf(absl::string_view("{\"outputs\": [3, {\"data\": 1}]}")).ok());
}

}  // namespace
}  // namespace beamwright::client
