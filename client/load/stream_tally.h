// What the streams of a load add up to. It is given times and takes none itself, as Tally is.
#ifndef BEAMWRIGHT_CLIENT_LOAD_STREAM_TALLY_H_
#define BEAMWRIGHT_CLIENT_LOAD_STREAM_TALLY_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "client/load/histogram.h"
#include "client/load/stream_load.h"

namespace beamwright::client {

// Thread-safe; of one stream one message at a time.
class StreamTally {
 public:
  struct Stream {
    absl::Time begin;       // of the source
    absl::Duration length;  // as it is spoken here
    absl::Duration sound;   // as it was recorded
    bool has_word = false;
    bool is_complete = false;  // its summary has come
    bool is_contradicted = false;
    absl::Time end;
    std::vector<int32_t> stable;  // of the segment that goes on
    int64_t num_segments = 0;
  };

  void Begin();
  // A message of a stream came at `now`.
  void Hear(Stream& stream, const v1::RecognizeResponse& message, absl::Time now);
  // The stream's call ended.
  void End(const Stream& stream, const absl::Status& status);
  // A piece was sent late by this much.
  void Late(absl::Duration by) { lag_.Record(by); }
  // From here on no stream counts that ends.
  void Stop();
  bool WaitUntilNone(absl::Duration timeout);
  // All but `elapsed`.
  StreamLoadReport Report();

 private:
  void HearWord(Stream& stream, absl::Time now, bool has_word);

  Histogram final_, word_, factor_, lag_;
  absl::Mutex mutex_;
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  StreamLoadReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_STREAM_TALLY_H_
