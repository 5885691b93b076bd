// Calls of the Open Inference Protocol over gRPC, for tests that look at what comes back.
#ifndef BEAMWRIGHT_TESTS_E2E_INFERENCE_FIXTURE_H_
#define BEAMWRIGHT_TESTS_E2E_INFERENCE_FIXTURE_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

// Of words for the default model.
ModelInferRequest InferRequest(const std::vector<std::string>& words);

// The same with its elements raw.
ModelInferRequest Raw(ModelInferRequest request);

// Elements of an output, raw.
template <typename T>
std::vector<T> Numbers(const std::string& raw) {
  std::vector<T> numbers(raw.size() / sizeof(T));
  std::memcpy(numbers.data(), raw.data(), raw.size());
  return numbers;
}
std::vector<std::string> Texts(std::string raw);

class InferenceTest : public E2eTest {
 protected:
  void SetUp() override;
  // Leaves the answer in answer_.
  grpc::Status Infer(const ModelInferRequest& request);
  // Elements of that output of the answer.
  const std::string& Output(const std::string& name) const;

  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  ModelInferResponse answer_;
};

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_INFERENCE_FIXTURE_H_
