// A load of streams: a number of sources at once that are sent as they are spoken, a piece when its
// last sample has been, and another one when one has ended. What is measured is what a listener
// feels: how long after the last sample the answer is there, and when the first word stands.
#ifndef BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_
#define BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "client/client.h"
#include "client/load/load.h"

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

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_STREAM_LOAD_H_
