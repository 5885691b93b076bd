// Several errors as one status, so that people mend a file once.
#ifndef BEAMWRIGHT_OPS_BASE_JOIN_ERRORS_H_
#define BEAMWRIGHT_OPS_BASE_JOIN_ERRORS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace beamwright {

// The messages of all errors, separated by "; ", with the code of the first; OK without errors.
absl::Status JoinErrors(absl::Span<const absl::Status> statuses);

}  // namespace beamwright

#endif  // BEAMWRIGHT_OPS_BASE_JOIN_ERRORS_H_
