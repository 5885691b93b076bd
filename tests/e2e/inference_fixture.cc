#include "tests/e2e/inference_fixture.h"

namespace beamwright::e2e {

ModelInferRequest InferRequest(const std::vector<std::string>& words) {
  ModelInferRequest request;
  request.set_model_name("g2p-en");
  request.set_id("id 1");
  auto& input = *request.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(static_cast<int64_t>(words.size()));
  input.add_shape(1);
  for (const std::string& word : words) {
    input.mutable_contents()->add_bytes_contents(word);
  }
  return request;
}

ModelInferRequest Raw(ModelInferRequest request) {
  std::string raw;
  for (const std::string& text : request.inputs(0).contents().bytes_contents()) {
    const auto size = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&size), sizeof(size));
    raw += text;
  }
  request.mutable_inputs(0)->clear_contents();
  request.add_raw_input_contents(raw);
  return request;
}

std::vector<std::string> Texts(std::string raw) {
  std::vector<std::string> texts;
  while (raw.size() >= 4) {
    uint32_t size = 0;
    std::memcpy(&size, raw.data(), 4);
    texts.push_back(raw.substr(4, size));
    raw = raw.substr(4 + size);
  }
  return texts;
}

void InferenceTest::SetUp() {
  E2eTest::SetUp();
  stub_ = inference::GRPCInferenceService::NewStub(channel_);
}

grpc::Status InferenceTest::Infer(const ModelInferRequest& request) {
  grpc::ClientContext context;
  answer_.Clear();
  return stub_->ModelInfer(&context, request, &answer_);
}

const std::string& InferenceTest::Output(const std::string& name) const {
  for (int i = 0; i < answer_.outputs_size(); ++i) {
    if (answer_.outputs(i).name() == name) {
      return answer_.raw_output_contents(i);
    }
  }
  static const std::string none = "no such output";
  return none;
}

}  // namespace beamwright::e2e
