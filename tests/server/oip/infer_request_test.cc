#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/oip/infer.h"

namespace beamwright::oip {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The decoder of the default model alone, as a model of its own.
std::string WriteDecoder() {
  namespace fs = std::filesystem;
  const std::string bundle = testing::TempDir() + "/decoder-only/1";
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

}  // namespace
}  // namespace beamwright::oip
