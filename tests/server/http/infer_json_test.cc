#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/http/message_json.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Bytes(const std::vector<std::string>& texts) {
  std::string raw;
  for (const std::string& text : texts) {
    const auto size = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&size), 4);
    raw += text;
  }
  return raw;
}

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Input(const std::string& datatype, const std::string& data) {
  return R"({"inputs": [{"name": "x", "shape": [2], "datatype": ")" + datatype + R"(", "data": )" +
         data + "}]}";
}

TEST(InferJsonTest, ElementsOfEveryDatatypeBecomeRaw) {
  const auto raw = [](const std::string& datatype, const std::string& data) {
    const absl::StatusOr<InferBody> body = ParseInferBody(Input(datatype, data), "");
    EXPECT_TRUE(body.ok()) << body.status();
    return body.ok() ? body->request.raw_input_contents(0) : "";
  };
  EXPECT_EQ(raw("BYTES", R"(["a", "é"])"), Bytes({"a", "\xC3\xA9"}));
  EXPECT_EQ(raw("BOOL", "[true, false]"), Raw<uint8_t>({1, 0}));
  EXPECT_EQ(raw("INT8", "[-128, 127]"), Raw<int8_t>({-128, 127}));
  EXPECT_EQ(raw("UINT16", "[0, 65535]"), Raw<uint16_t>({0, 65535}));
  EXPECT_EQ(raw("INT64", "[-9007199254740991, 1]"), Raw<int64_t>({1 - (int64_t{1} << 53), 1}));
  EXPECT_EQ(raw("FP32", "[1, 0.5]"), Raw<float>({1, 0.5F}));
  EXPECT_EQ(raw("FP32", "[3.4028235e38, -3.4028235e38]"), Raw<float>({FLT_MAX, -FLT_MAX}));
  EXPECT_EQ(raw("FP64", "[1e300, -0.1]"), Raw<double>({1e300, -0.1}));
  // Nested as the shape is, or flat.
  EXPECT_EQ(raw("INT32", "[[1], [[2, 3]]]"), Raw<int32_t>({1, 2, 3}));
}

TEST(InferJsonTest, ElementsThatDoNotFitAreNamed) {
  const auto message = [](const std::string& datatype, const std::string& data) {
    const absl::Status status = ParseInferBody(Input(datatype, data), "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message("INT8", "[1, 128]"), HasSubstr("inputs[0]: data: [1]: 128 is outside"));
  EXPECT_THAT(message("UINT8", "[-1]"), HasSubstr("[0]: -1 is outside"));
  EXPECT_THAT(message("INT32", "[1.5]"), HasSubstr("is not a whole number"));
  EXPECT_THAT(message("INT64", "[0.5]"), HasSubstr("is not a whole number"));
  for (const char* inexact : {"[1e300]", "[9007199254740993]", "[-9223372036854775807]"}) {
    EXPECT_THAT(message("INT64", inexact), HasSubstr("data: [0]: is not below 2^53"));
  }
  EXPECT_THAT(message("FP32", "[1, 1e39]"), HasSubstr("data: [1]: 1e+39 is outside"));
  EXPECT_THAT(message("FP32", "[-3.4028236e38]"), HasSubstr("is outside"));
  EXPECT_THAT(message("BYTES", "[[1]]"), HasSubstr("[0]: [0]: is not a string"));
  EXPECT_THAT(message("FP16", "[1]"), HasSubstr("as binary data"));
  EXPECT_THAT(message("TEXT", "[1]"), HasSubstr("'TEXT' is not one of"));
  EXPECT_THAT(message("BYTES", "\"a\""), HasSubstr("data: is not a list"));
  EXPECT_THAT(message("INT32", "[1, 2,]"), HasSubstr("follows a comma"));
}

// protobuf's reader takes time that grows with the square of the depth: minutes for 400 KB.
TEST(InferJsonTest, ADeepBodyIsRefusedBeforeItIsRead) {
  const auto nested = [](size_t depth) {
    return Input("INT32", std::string(depth, '[') + "1" + std::string(depth, ']'));
  };
  EXPECT_TRUE(ParseInferBody(nested(8), "").ok());
  const absl::Status status = ParseInferBody(nested(200'000), "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the JSON is nested deeper than 64 levels");
}

TEST(InferJsonTest, BinaryElementsStandBehindTheJson) {
  const std::string json =
      R"({"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES",
           "parameters": {"binary_data_size": 5}},
          {"name": "y", "shape": [1], "datatype": "INT32", "data": [7]},
          {"name": "z", "shape": [1], "datatype": "INT32",
           "parameters": {"binary_data_size": 4}}]})";
  const std::string length = std::to_string(json.size());
  const absl::StatusOr<InferBody> body = ParseInferBody(json + Bytes({"a"}) + "1234", length);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->request.raw_input_contents(0), Bytes({"a"}));
  EXPECT_EQ(body->request.raw_input_contents(1), Raw<int32_t>({7}));
  EXPECT_EQ(body->request.raw_input_contents(2), "1234");
  EXPECT_THAT(std::string(ParseInferBody(json + "123456", length).status().message()),
              HasSubstr("there are 1 bytes left"));
  EXPECT_THAT(std::string(ParseInferBody(json + "1234567890", length).status().message()),
              HasSubstr("1 bytes behind the JSON"));
  for (const char* wrong : {"-1", "x", "99999"}) {
    EXPECT_THAT(std::string(ParseInferBody(json, wrong).status().message()),
                HasSubstr("Inference-Header-Content-Length"));
  }
}

TEST(InferJsonTest, ABinarySizeIsAWholeNumber) {
  for (const char* size : {R"("4")", "1.5", "true"}) {
    const std::string json =
        R"({"inputs": [{"name": "x", "shape": [1], "datatype": "INT32",
             "parameters": {"binary_data_size": )" +
        std::string(size) + "}}]}";
    EXPECT_THAT(std::string(ParseInferBody(json, "").status().message()),
                HasSubstr("inputs[0]: parameters['binary_data_size']: is not a whole number"))
        << size;
  }
}

TEST(InferJsonTest, ABinarySizeIsNeitherNegativeNorBesideData) {
  const auto message = [](const std::string& size, const std::string& data) {
    const std::string json =
        R"({"inputs": [{"name": "x", "shape": [1], "datatype": "INT32",
             "parameters": {"binary_data_size": )" +
        size + "}" + data + "}]}";
    const absl::Status status = ParseInferBody(json + "1234", std::to_string(json.size())).status();
    return std::string(status.message());
  };
  EXPECT_EQ(message("4", ""), "");
  EXPECT_THAT(message("-1", ""), HasSubstr("inputs[0]: parameters['binary_data_size']: -1; "));
  EXPECT_THAT(message("4", R"(, "data": [7])"), HasSubstr("no data may be in it"));
}

TEST(InferJsonTest, AllOutputsAreBinaryOnlyWhereNoneIsNamed) {
  const std::string all = R"("parameters": {"binary_data_output": true})";
  const absl::StatusOr<InferBody> none = ParseInferBody("{" + all + "}", "");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->all_binary);
  const absl::StatusOr<InferBody> named = ParseInferBody("{" + all + R"(, "outputs": [{"name": "a"},
                                   {"name": "b", "parameters": {"binary_data": false}}]})",
                                                         "");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_FALSE(named->all_binary);
  EXPECT_EQ(named->binary_outputs, std::set<std::string>{"a"});
}

TEST(InferJsonTest, ParametersKeepTheirKind) {
  const absl::StatusOr<InferBody> body = ParseInferBody(
      R"({"id": "1", "parameters": {"a": true, "b": 3, "c": 0.5, "d": "x", "e": 1e300}})", "");
  ASSERT_TRUE(body.ok()) << body.status();
  const auto& parameters = body->request.parameters();
  EXPECT_TRUE(parameters.at("a").bool_param());
  EXPECT_EQ(parameters.at("b").int64_param(), 3);
  EXPECT_EQ(parameters.at("c").double_param(), 0.5);
  EXPECT_EQ(parameters.at("d").string_param(), "x");
  EXPECT_EQ(parameters.at("e").double_param(), 1e300);
  EXPECT_THAT(std::string(ParseInferBody(R"({"parameters": {"a": [1]}})", "").status().message()),
              HasSubstr("parameters['a']"));
}

inference::ModelInferResponse Answer() {
  inference::ModelInferResponse answer;
  answer.set_model_name("m\"");
  answer.set_model_version("1");
  const auto add = [&](const char* name, const char* datatype, const std::string& raw) {
    auto& output = *answer.add_outputs();
    output.set_name(name);
    output.set_datatype(datatype);
    output.add_shape(2);
    answer.add_raw_output_contents(raw);
  };
  add("text", "BYTES", Bytes({"a\n", ""}));
  add("scores", "FP64", Raw<double>({-0.5, -std::numeric_limits<double>::infinity()}));
  add("lengths", "INT32", Raw<int32_t>({3, 0}));
  add("attention", "FP32", Raw<float>({0.25F, -0.1F}));
  return answer;
}

TEST(InferJsonTest, AnswersAreJsonUnlessAskedOtherwise) {
  const InferReply all = WriteInferBody({}, Answer());
  EXPECT_EQ(all.body, R"({"model_name":"m\"","model_version":"1","outputs":[)"
                      R"({"name":"text","datatype":"BYTES","shape":[2],"data":["a\n",""]},)"
                      R"({"name":"scores","datatype":"FP64","shape":[2],"data":[-0.5,null]},)"
                      R"({"name":"lengths","datatype":"INT32","shape":[2],"data":[3,0]},)"
                      R"({"name":"attention","datatype":"FP32","shape":[2],"data":[0.25,-0.1]}]})");
  EXPECT_EQ(all.json_length, all.body.size());
  InferBody asked;
  for (const char* name : {"text", "scores", "lengths", "attention"}) {
    asked.request.add_outputs()->set_name(name);
  }
  asked.binary_outputs = {"lengths", "text"};
  const InferReply mixed = WriteInferBody(asked, Answer());
  EXPECT_THAT(mixed.body, HasSubstr(R"("shape":[2],"parameters":{"binary_data_size":10}})"));
  EXPECT_EQ(mixed.body.substr(mixed.json_length), Bytes({"a\n", ""}) + Raw<int32_t>({3, 0}));
}

TEST(InferJsonTest, AnswersHaveTheirParameters) {
  inference::ModelInferResponse answer = Answer();
  auto& parameters = *answer.mutable_parameters();
  parameters["numerics"].set_string_param("a\"");
  parameters["b"].set_bool_param(true);
  parameters["i"].set_int64_param(-1);
  parameters["u"].set_uint64_param(~uint64_t{0});
  parameters["d"].set_double_param(0.5);
  const std::string begin =
      R"({"model_name":"m\"","model_version":"1","parameters":{"b":true,"d":0.5,"i":-1,)"
      R"("numerics":"a\"","u":18446744073709551615},"outputs":[{)";
  EXPECT_THAT(WriteInferBody({}, answer).body, StartsWith(begin));
  InferBody binary;
  binary.all_binary = true;
  const InferReply reply = WriteInferBody(binary, answer);
  EXPECT_LT(reply.json_length, reply.body.size());
  EXPECT_THAT(reply.body, StartsWith(begin));
}

TEST(JsonTest, SixtyFourBitIntegersAreNumbers) {
  inference::ModelMetadataResponse message;
  message.set_name("m");
  message.add_inputs()->add_shape(-1);
  (*message.mutable_properties())["k"] = "v";
  JsonWriter json;
  WriteMessage(message, json);
  EXPECT_EQ(json.text(),
            R"({"name":"m","versions":[],"platform":"","inputs":[{"name":"","datatype":"",)"
            R"("shape":[-1]}],"outputs":[],"properties":{"k":"v"}})");
}

}  // namespace
}  // namespace beamwright::http
