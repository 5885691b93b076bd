// InputTensor: one input of an inference request, checked, whether its elements came raw or typed.
#ifndef BEAMWRIGHT_SERVER_OIP_INPUT_TENSOR_H_
#define BEAMWRIGHT_SERVER_OIP_INPUT_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/grpc_service.pb.h"
#include "inference/model_config.pb.h"

namespace beamwright::oip {

// Element types: the Open Inference Protocol's names and those of this server.

struct Datatype {
  absl::string_view name;   // "FP32"
  absl::string_view dtype;  // "f32", as beamwright.v1.Tensor writes it; empty for BYTES
  int64_t size;             // bytes of an element; 0 for BYTES, whose elements differ
  inference::DataType config_type;
};

// Null if there is no such type.
const Datatype* FindDatatype(absl::string_view name);
const Datatype* FindDType(absl::string_view dtype);

// "BOOL, UINT8, ...", for error messages.
std::string DatatypeNames();

// Views into the request that it was read from.
struct InputTensor {
  std::string name;
  const Datatype* datatype = nullptr;
  std::vector<int64_t> shape;  // [sources, ...], at least one axis
  // Elements of BYTES tensors, or all elements of others as raw little-endian bytes.
  std::vector<absl::string_view> strings;
  std::string bytes;

  // Elements of one source.
  int64_t row_size() const;
};

// All inputs of a request. InvalidArgument naming the input: unknown datatypes, shapes that are
// negative or do not fit the elements, raw and typed elements mixed, shared memory, an input twice.
absl::StatusOr<std::vector<InputTensor>> ReadInputs(const inference::ModelInferRequest& request);

// Elements as ids. InvalidArgument for types other than INT32 and INT64, or ids outside of int32.
absl::StatusOr<std::vector<int32_t>> ToIds(const InputTensor& tensor);

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_INPUT_TENSOR_H_
