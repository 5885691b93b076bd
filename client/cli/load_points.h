// Which loads a load test runs one after the other: "4", "1,2,4..128", "100..2000".
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_POINTS_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_POINTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::client {

inline constexpr size_t kMaxLoadPoints = 64;

// Numbers with commas between; A..B doubles from A on and ends with B, which must be greater.
// InvalidArgument says what is wrong, also with a number outside of [minimum, maximum].
absl::StatusOr<std::vector<double>> ParseLoadPoints(absl::string_view text, double minimum,
                                                    double maximum);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_POINTS_H_
