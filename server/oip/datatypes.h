// Element types: the Open Inference Protocol's names and those of this server.
#ifndef BEAMWRIGHT_SERVER_OIP_DATATYPES_H_
#define BEAMWRIGHT_SERVER_OIP_DATATYPES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "inference/model_config.pb.h"

namespace beamwright::oip {

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

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_DATATYPES_H_
