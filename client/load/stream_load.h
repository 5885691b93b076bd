// A load of streams: a number of sources at once that are sent as they are spoken, a piece when its
// last sample has been, and another one when one has ended. What is measured is what a listener
// feels: how long after the last sample the answer is there, and when the first word stands.
#ifndef BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_
#define BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "client/load/histogram.h"
#include "client/load/load.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

struct SpokenSource {
  std::vector<v1::RecognizeRequest> pieces;  // each as long as StreamLoadOptions::piece, the last
                                             // perhaps shorter
  absl::Duration length;
};

struct StreamLoadOptions {
  v1::RecognizeConfig config;
  // At least one; streams take turns.
  std::vector<SpokenSource> sources;
  absl::Duration piece = absl::Milliseconds(100);
  int streams = 1;
  // Streams begin for so long, the first of each within the length of its source; those that have
  // begun are spoken to their end.
  absl::Duration duration = absl::Seconds(10);
  // Times as fast as it is spoken.
  double speed = 1;
  // For each stream, in addition to its length.
  absl::Duration timeout = absl::Seconds(30);
  // Set to true by anybody, it ends the run: streams under way are cancelled and not counted. May
  // be null; must outlive the run otherwise.
  const std::atomic<bool>* stop = nullptr;
};

struct StreamLoadReport {
  absl::Duration elapsed;
  int64_t num_heard = 0;  // streams that were answered to their end
  std::map<absl::StatusCode, int64_t> failed;
  absl::Status first_failure;
  // Of the streams that were heard: what was spoken.
  absl::Duration sound;
  int64_t num_segments = 0;
  // Streams whose answer did not begin with the stable words.
  int64_t num_contradicted = 0;
  // From when the last sample was spoken to the summary.
  Percentiles final_latency;
  // From the beginning of the source to the first token that can no longer change.
  Percentiles first_word;
  // From the beginning of the source to the summary, over its length; a millisecond stands for 1,
  // which is as fast as it was spoken.
  Percentiles real_time_factor;
  // How late pieces were sent by this machine.
  Percentiles lag;
  bool stopped = false;
};

// InvalidArgument names the option out of range.
absl::StatusOr<StreamLoadReport> RunStreamLoad(Client& client, const StreamLoadOptions& options);

// What the streams of a load add up to. It is given times and takes none itself, as Tally is.

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

#endif  // BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_
