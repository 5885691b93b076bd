// Every way to get a request of the Open Inference Protocol wrong: its code, and what the message
// has to name.
#include <gmock/gmock.h>

#include <functional>

#include "tests/e2e/inference_fixture.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

TEST_F(InferenceTest, FaultsHaveTheirCodeAndAreNamed) {
  struct Fault {
    const char* what;
    std::function<void(ModelInferRequest&)> spoil;
    grpc::StatusCode code;
    const char* message;
  };
  const auto parameter = [](ModelInferRequest & request, const char* name) -> auto& {
    return (*request.mutable_parameters())[name];
  };
  const std::vector<Fault> faults = {
      {"unknown model", [](auto& r) { r.set_model_name("x"); }, grpc::StatusCode::NOT_FOUND,
       "Request for unknown model: 'x' is not found"},
      {"no model", [](auto& r) { r.clear_model_name(); }, grpc::StatusCode::NOT_FOUND, "''"},
      {"unknown version", [](auto& r) { r.set_model_version("7"); }, grpc::StatusCode::NOT_FOUND,
       "'7'"},
      {"no label of its", [](auto& r) { r.set_model_version("latest"); },
       grpc::StatusCode::NOT_FOUND, "'latest'"},
      {"neither number nor label", [](auto& r) { r.set_model_version("-1"); },
       grpc::StatusCode::INVALID_ARGUMENT, "'-1' is neither a whole number from 1 on nor a label"},
      {"no input", [](auto& r) { r.clear_inputs(); }, grpc::StatusCode::INVALID_ARGUMENT, "inputs"},
      {"unknown input", [](auto& r) { r.mutable_inputs(0)->set_name("text"); },
       grpc::StatusCode::INVALID_ARGUMENT, "it takes 'source_text'"},
      {"two inputs", [](auto& r) { *r.add_inputs() = r.inputs(0); },
       grpc::StatusCode::INVALID_ARGUMENT, "'source_text' is given twice"},
      {"datatype", [](auto& r) { r.mutable_inputs(0)->set_datatype("STRING"); },
       grpc::StatusCode::INVALID_ARGUMENT, "'STRING' is not one of BOOL"},
      {"wrong datatype",
       [](auto& r) {
         r.mutable_inputs(0)->set_datatype("INT32");
         r.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "takes BYTES, not INT32"},
      {"shape", [](auto& r) { r.mutable_inputs(0)->set_shape(0, 2); },
       grpc::StatusCode::INVALID_ARGUMENT, "takes 2 elements; got 1"},
      {"negative shape", [](auto& r) { r.mutable_inputs(0)->set_shape(0, -1); },
       grpc::StatusCode::INVALID_ARGUMENT, "source_text"},
      {"huge shape",
       [](auto& r) {
         r.mutable_inputs(0)->set_shape(0, int64_t{1} << 40);
         r.mutable_inputs(0)->set_shape(1, int64_t{1} << 40);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "source_text"},
      {"no source", [](auto& r) { r.mutable_inputs(0)->set_shape(0, 0); },
       grpc::StatusCode::INVALID_ARGUMENT, "holds no source"},
      {"wide shape",
       [](auto& r) {
         r.mutable_inputs(0)->set_shape(1, 2);
         r.mutable_inputs(0)->mutable_contents()->add_bytes_contents("b");
       },
       grpc::StatusCode::INVALID_ARGUMENT, "[1,2]"},
      {"more raw than inputs",
       [](auto& r) {
         r = Raw(r);
         r.add_raw_input_contents("x");
       },
       grpc::StatusCode::INVALID_ARGUMENT, "raw_input_contents: has 2 entries for 1 inputs"},
      {"raw and typed", [](auto& r) { r.add_raw_input_contents("x"); },
       grpc::StatusCode::INVALID_ARGUMENT, "send either"},
      {"raw cut short",
       [](auto& r) {
         r = Raw(r);
         r.mutable_raw_input_contents(0)->pop_back();
       },
       grpc::StatusCode::INVALID_ARGUMENT, "element 0"},
      {"raw length cut",
       [](auto& r) {
         r = Raw(r);
         r.mutable_raw_input_contents(0)->resize(3);
       },
       grpc::StatusCode::INVALID_ARGUMENT, "length of element 0"},
      {"not UTF-8",
       [](auto& r) {
         r.mutable_inputs(0)->mutable_contents()->set_bytes_contents(0, std::string("\xFF"));
       },
       grpc::StatusCode::INVALID_ARGUMENT, "source"},
      {"empty source",
       [](auto& r) { r.mutable_inputs(0)->mutable_contents()->set_bytes_contents(0, ""); },
       grpc::StatusCode::INVALID_ARGUMENT, "source 0"},
      {"unknown parameter", [&](auto& r) { parameter(r, "beams").set_int64_param(1); },
       grpc::StatusCode::INVALID_ARGUMENT,
       "parameters['beams']: is not known; known are beam_size"},
      {"parameter of the wrong type",
       [&](auto& r) { parameter(r, "beam_size").set_bool_param(true); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['beam_size']: takes a whole number"},
      {"parameter out of range", [&](auto& r) { parameter(r, "beam_size").set_int64_param(0); },
       grpc::StatusCode::INVALID_ARGUMENT, "options.beam_size: 0 is outside [1, 256]"},
      {"parameter beyond int32",
       [&](auto& r) { parameter(r, "beam_size").set_int64_param(int64_t{1} << 32); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['beam_size']"},
      {"enum", [&](auto& r) { parameter(r, "stop").set_string_param("soon"); },
       grpc::StatusCode::INVALID_ARGUMENT, "one of safe, first, count, never, heuristic"},
      {"timeout", [&](auto& r) { parameter(r, "timeout").set_string_param("1s"); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['timeout']"},
      {"priority", [&](auto& r) { parameter(r, "priority").set_string_param("high"); },
       grpc::StatusCode::INVALID_ARGUMENT, "parameters['priority']"},
      {"unknown output", [](auto& r) { r.add_outputs()->set_name("TEXT"); },
       grpc::StatusCode::INVALID_ARGUMENT, "unexpected inference output 'TEXT'"},
      {"shared memory",
       [](auto& r) {
         (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("x");
       },
       grpc::StatusCode::UNIMPLEMENTED, "shared memory"},
      {"more than the model allows",
       [&](auto& r) { parameter(r, "beam_size").set_int64_param(65); },
       grpc::StatusCode::INVALID_ARGUMENT, "limit of 64"},
      {"too late", [&](auto& r) { parameter(r, "timeout").set_int64_param(1); },
       grpc::StatusCode::DEADLINE_EXCEEDED, "deadline passed"},
  };
  for (const Fault& fault : faults) {
    ModelInferRequest request = InferRequest({"cat"});
    fault.spoil(request);
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), fault.code) << fault.what << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(fault.message)) << fault.what;
  }
  EXPECT_EQ(
      CallRaw(channel_, "/inference.GRPCInferenceService/ModelInfer", "\x0A\x7F").error_code(),
      grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(CallRaw(channel_, "/inference.GRPCInferenceService/SystemSharedMemoryStatus", "")
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace beamwright::e2e
