// A closed-loop load generator: a fixed number of calls is kept in flight, each answer starts the
// next call. It measures how much a server can do and how long calls take at that concurrency. It
// does not tell the latency of users who arrive at their own pace: a closed loop waits for a slow
// server.
#ifndef BEAMWRIGHT_CLIENT_LOAD_LOAD_H_
#define BEAMWRIGHT_CLIENT_LOAD_LOAD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "client/client.h"

namespace beamwright::client {

struct LoadOptions {
  // Model, version and options of every call; its sources are ignored.
  v1::DecodeRequest request;
  // Sent in this order, from the first again after the last. At least one.
  std::vector<v1::Source> sources;
  // Sources a call, at least 1.
  int batch = 1;
  // Calls in flight, 1 to kMaxConcurrency.
  int concurrency = 16;
  // Calls started before this has passed are made but not counted.
  absl::Duration warmup = absl::Seconds(1);
  // Calls are started for this long after the warm-up, at most kMaxLoadDuration.
  absl::Duration duration = absl::Seconds(10);
  // At most this many counted calls; 0: as many as the time allows.
  int64_t max_calls = 0;
  // For each call.
  absl::Duration timeout = absl::Seconds(30);
  // Set to true by anybody, for example a signal handler, it ends the run: calls in flight are
  // cancelled and not counted. May be null; must outlive the run otherwise.
  const std::atomic<bool>* stop = nullptr;
};

inline constexpr int kMaxConcurrency = 4096;
inline constexpr absl::Duration kMaxLoadDuration = absl::Hours(24);

struct LoadReport {
  // From the end of the warm-up to the last counted answer.
  absl::Duration elapsed;
  int64_t num_calls = 0;    // answered
  int64_t num_sources = 0;  // decoded
  // Calls that failed as a whole, by code; their sources are in neither of the other counts.
  std::map<absl::StatusCode, int64_t> failed_calls;
  // Sources that failed in answered calls, by code.
  std::map<absl::StatusCode, int64_t> failed_sources;
  // The first failure of a call or a source; OK: there was none.
  absl::Status first_failure;
  // Of answered calls, from before sending to the answer.
  absl::Duration p50, p90, p99, max;
  // The run ended early because calls failed in a row in a way that others would fail as well.
  bool gave_up = false;
  // The run was ended by `stop`.
  bool stopped = false;
};

// Runs the load and returns when every call that it started has ended: so within warmup + duration
// + timeout. InvalidArgument names the option out of range. Connect the client with max_attempts =
// 1: retries would hide failures.
absl::StatusOr<LoadReport> RunLoad(Client& client, const LoadOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_LOAD_H_
