// Parameters of an inference request: decode options by the names of their fields, and the few
// names that the protocol reserves.
#ifndef BEAMWRIGHT_SERVER_OIP_PARAMETERS_H_
#define BEAMWRIGHT_SERVER_OIP_PARAMETERS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "google/protobuf/map.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::oip {

struct Parameters {
  v1::DecodeOptions options;
  absl::Duration timeout = absl::InfiniteDuration();
  int priority = 0;  // 0: none is asked for; else as engine::CallOptions has it
};

// Every field of DecodeOptions is a parameter of its name: numbers and bools as such, enums by
// their short name ("pow"), repeated fields and messages as strings in protobuf's JSON form; a
// number may also be a string. `timeout` is in microseconds; `priority` is 1 (first) to 3,
// more counts as 3, 0 as none; sequence_* (sequences.h) and what clients set for themselves is
// passed over.
// InvalidArgument naming the parameter: of the wrong type, or unknown. Ranges are checked with the
// options.
absl::StatusOr<Parameters> ReadParameters(
    const google::protobuf::Map<std::string, inference::InferParameter>& parameters);

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_PARAMETERS_H_
