// The Open Inference Protocol's log settings, as Triton has them, on the one level that the log
// has: log_error, log_warning, log_info (bools) and log_verbose_level (0, or more for debug
// messages). The least severe that is on decides.
#ifndef BEAMWRIGHT_SERVER_OIP_LOG_SETTINGS_H_
#define BEAMWRIGHT_SERVER_OIP_LOG_SETTINGS_H_

#include "absl/status/status.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::oip {

// InvalidArgument for a setting that there is not or of a wrong type, Unimplemented for log_file
// and log_format, which are set at start; nothing has changed then.
absl::Status ChangeLogSettings(const inference::LogSettingsRequest& request);

void TellLogSettings(inference::LogSettingsResponse& response);

}  // namespace beamwright::oip

#endif  // BEAMWRIGHT_SERVER_OIP_LOG_SETTINGS_H_
