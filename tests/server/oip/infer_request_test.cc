#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "server/oip/infer.h"

namespace beamwright::oip {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The decoder of the default model alone, as a separate model.
std::string WriteDecoder() {
  namespace fs = std::filesystem;
  const std::string bundle = testing::TempDir() + "/" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() + "/1";
  fs::remove_all(bundle);
  fs::create_directories(bundle);
  const std::string model = BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1/";
  for (const char* file : {"decoder.xml", "decoder.bin", "target.vocab"}) {
    fs::copy(model + file, bundle);
  }
  std::ostringstream config;
  config << std::ifstream(model + "model.textproto").rdbuf();
  std::string text = config.str();
  text.erase(text.find("encoder {"), std::string("encoder {\n  graph: \"encoder.xml\"\n}").size());
  const size_t source = text.find("source {");
  text.replace(source, text.find("target {") - source, "source { form: TEXT_FORM_IDS }\n");
  std::ofstream(bundle + "/model.textproto") << text;
  return bundle;
}

TEST(InferRequestTest, WhatADecoderReadsIsNamed) {
  serving::ModelPaths paths;
  paths.models = {WriteDecoder()};
  const auto models = serving::ModelRegistry::Load(paths);
  ASSERT_TRUE(models.ok()) << models.status();
  inference::ModelInferRequest request;
  request.set_model_name("g2p-en");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  request.add_raw_input_contents("1234");
  const absl::Status status = ReadInferRequest(**models, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  std::string names;
  const absl::StatusOr<v1::ModelDescription> model = (*models)->Describe("g2p-en", "");
  ASSERT_TRUE(model.ok() && model->memory_size() > 0 && model->states_size() > 0);
  for (const auto* tensors : {&model->memory(), &model->states()}) {
    for (const v1::TensorDescription& tensor : *tensors) {
      names += (names.empty() ? "" : ", ") + tensor.name();
    }
  }
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("input 'x'"), HasSubstr("it reads " + names + ", none of them")));
}

TEST(InferRequestTest, DecoderInputsHoldEquallyManySources) {
  serving::ModelPaths paths;
  paths.models = {WriteDecoder()};
  const auto models = serving::ModelRegistry::Load(paths);
  ASSERT_TRUE(models.ok()) << models.status();
  const absl::StatusOr<v1::ModelDescription> model = (*models)->Describe("g2p-en", "");
  ASSERT_TRUE(model.ok() && model->memory_size() > 0 && model->states_size() > 0);
  const std::string memory = model->memory(0).name();
  const std::string state = model->states(0).name();
  const auto read = [&](int memories, int states) {
    inference::ModelInferRequest request;
    request.set_model_name("g2p-en");
    for (const auto& [name, sources] : {std::pair(memory, memories), std::pair(state, states)}) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype("FP32");
      input.add_shape(sources);
      request.add_raw_input_contents(std::string(static_cast<size_t>(sources) * 4, '\0'));
    }
    return ReadInferRequest(**models, request).status();
  };
  EXPECT_TRUE(read(2, 2).ok()) << read(2, 2);
  for (const int states : {1, 3}) {
    const absl::Status status = read(2, states);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("input '" + state + "' holds " + std::to_string(states) + " sources, '" +
                          memory + "' 2"));
  }
}

TEST(InferRequestTest, PaddingIsAtTheEndOfARow) {
  serving::ModelPaths paths;
  paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"};
  const auto models = serving::ModelRegistry::Load(paths);
  ASSERT_TRUE(models.ok()) << models.status();
  const auto read = [&](std::initializer_list<int> ids) {
    inference::ModelInferRequest request;
    request.set_model_name("g2p-en");
    auto& input = *request.add_inputs();
    input.set_name("source_ids");
    input.set_datatype("INT32");
    input.add_shape(static_cast<int64_t>(ids.size()) / 3);
    input.add_shape(3);
    input.mutable_contents()->mutable_int_contents()->Add(ids.begin(), ids.end());
    return ReadInferRequest(**models, request);
  };
  const auto good = read({5, 6, 7, 5, -1, -1, 5, 6, -1});
  ASSERT_TRUE(good.ok()) << good.status();
  const v1::DecodeRequest& sources = good->job.request;
  ASSERT_EQ(sources.sources_size(), 3);
  EXPECT_EQ(sources.sources(0).ids().ids_size(), 3);
  EXPECT_EQ(sources.sources(1).ids().ids_size(), 1);
  EXPECT_EQ(sources.sources(2).ids().ids_size(), 2);
  for (const auto& [ids, place] : {std::pair(read({5, -1, 6}), "[0][2] is 6"),
                                   std::pair(read({5, 6, 7, -1, 8, -1}), "[1][1] is 8"),
                                   std::pair(read({5, -1, -2}), "[0][2] is -2")}) {
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument) << ids.status();
    EXPECT_THAT(std::string(ids.status().message()),
                AllOf(HasSubstr("input 'source_ids'"), HasSubstr(place)));
  }
}

TEST(InferRequestTest, ANamedOutputRaisesTheAttentionAskedForAndNeverLowersIt) {
  serving::ModelPaths paths;
  paths.models = {BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"};
  const auto models = serving::ModelRegistry::Load(paths);
  ASSERT_TRUE(models.ok()) << models.status();
  const auto attention = [&](const char* option, const char* output) {
    inference::ModelInferRequest request;
    request.set_model_name("g2p-en");
    if (option != nullptr) {
      (*request.mutable_parameters())["attention"].set_string_param(option);
    }
    request.add_outputs()->set_name(output);
    auto& input = *request.add_inputs();
    input.set_name("source_text");
    input.set_datatype("BYTES");
    input.add_shape(1);
    input.mutable_contents()->add_bytes_contents("a");
    const auto job = ReadInferRequest(**models, request);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->job.request.options().attention() : v1::ATTENTION_UNSPECIFIED;
  };
  EXPECT_EQ(attention(nullptr, "text"), v1::ATTENTION_UNSPECIFIED);  // the model's default
  EXPECT_EQ(attention("none", "text"), v1::ATTENTION_NONE);
  EXPECT_EQ(attention("none", "alignment"), v1::ATTENTION_HARD);
  EXPECT_EQ(attention("hard", "attention"), v1::ATTENTION_SOFT);
  EXPECT_EQ(attention("soft", "alignment"), v1::ATTENTION_SOFT);
  EXPECT_EQ(attention("none", "words"), v1::ATTENTION_NONE);
}

}  // namespace
}  // namespace beamwright::oip
