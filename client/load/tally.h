// What the calls of a load run add up to. It is given times and takes none itself, so its
// arithmetic can be tested.
#ifndef BEAMWRIGHT_CLIENT_LOAD_TALLY_H_
#define BEAMWRIGHT_CLIENT_LOAD_TALLY_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "client/load/histogram.h"
#include "client/load/load.h"

namespace beamwright::client {

// Thread-safe.
class Tally {
 public:
  // Not the wall clock, which may be set while we measure.
  using Clock = std::chrono::steady_clock;

  // begin: when counting begins, the end of the warm-up. Of the options, good_within, duration and
  // the limits count.
  Tally(Clock::time_point begin, const LoadOptions& options);

  // A call was due at `intended` and is sent at `sent`. In a closed loop the two are the same.
  void Sent(Clock::time_point intended, Clock::time_point sent);
  // A call was due but too many were in flight.
  void Skipped();
  // The call that was due at `intended` ended at `now`: latency is what lies between, so that
  // waiting for a sender that is late, or for a server that is, counts.
  void Ended(Clock::time_point intended, Clock::time_point now,
             const absl::StatusOr<v1::DecodeResponse>& response);
  // A call was given up by us, as asked for.
  void Cancelled(Clock::time_point now);
  // The first stable token of a stream that began at `intended` came at `now`.
  void FirstToken(Clock::time_point intended, Clock::time_point now);
  // An answer was held against what was expected; `wrong` says how they differ, or is empty.
  void Checked(const std::string& wrong);
  // Keeps `status` as the first failure if there was none; counts nothing.
  void NoteFailure(const absl::Status& status);

  // All but gave_up, stopped and what the process took.
  LoadReport Report() const;

 private:
  // The part of the timeline that `now` is in; closes those before.
  LoadInterval& IntervalAt(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetPercentiles(LoadInterval& part) const;
  void CountResults(const v1::DecodeResponse& response, absl::Duration latency)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteFailureLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock::time_point begin_;
  const absl::Duration good_within_;
  const absl::Duration interval_;
  const std::vector<absl::Duration> limits_, first_limits_;
  Histogram interval_latency_;  // of the last part of the timeline
  Histogram answered_, refused_, lag_, first_token_;
  mutable absl::Mutex mutex_;
  Clock::time_point last_end_ ABSL_GUARDED_BY(mutex_);
  LoadReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_TALLY_H_
