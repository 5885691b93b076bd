// DecodeStream: a StreamDecode call between the engine, which never waits, and a client, which may
// read slowly or not at all. What is stable gathers until it is taken, of the provisional
// hypothesis only the newest is kept: so a call holds no more than one answer, and delays no other
// call.
#ifndef BEAMWRIGHT_SERVER_SERVING_DECODE_STREAM_H_
#define BEAMWRIGHT_SERVER_SERVING_DECODE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "engine/request/call.h"
#include "server/serving/decode.h"

namespace beamwright::serving {

// What clients receive of a hypothesis before its search ends, in streams of every kind.

// What a stream of answers had for its taker: nothing yet, a message, or the end with its status.
enum class Taken { kNothing, kMessage, kEnd };

// Tokens with which every answer will begin.
struct StablePrefix {
  std::vector<int32_t> tokens;
  size_t num_taken = 0;  // of them, by the client

  bool has_news() const { return num_taken < tokens.size(); }
};

// What may end a text before its tokens do (engine::AnswerText).
struct TextEnd {
  std::shared_ptr<const search::StopStrings> stop_strings;  // null: nothing
  size_t prefix_length = 0;
};

// Sets the tokens that were not taken yet, their position, and the text of all.
void TakeStable(const engine::DecodeModel& model, const TextEnd& end, StablePrefix& prefix,
                v1::StableTokens& message);

// With tokens, their frames, text and score.
v1::Hypothesis MakeProvisional(const engine::DecodeModel& model, const TextEnd& end,
                               const engine::Provisional& hypothesis);

// Sets the words of the segment: those of its best hypothesis that have times, in the source. None
// if the model does not say how long a frame is.
void SetWords(const engine::DecodeModel& model, v1::RecognizedSegment& segment);

// Thread-safe. Shared by the thread that takes from it and the engine's callbacks.
class DecodeStream : public std::enable_shared_from_this<DecodeStream> {
 public:
  // Starts to decode. `wake` (may be null) is called, on any thread and perhaps within Start, when
  // there is something to take; it must return at once. A request that is an error is refused with
  // it.
  static std::shared_ptr<DecodeStream> Start(Core& core,
                                             absl::StatusOr<v1::StreamDecodeRequest> request,
                                             const Caller& caller, std::function<void()> wake);

  using Taken = serving::Taken;
  // What there is since the last time: a message, or nothing yet, or the end of the call with its
  // status, after the message with the answer. Sets `message` or `end`.
  Taken Take(v1::StreamDecodeResponse& message, absl::Status& end);
  // Waits, at most so long, until there is something to take.
  void Wait(absl::Duration most);

 private:
  explicit DecodeStream(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Add(engine::Progress progress);
  void End(absl::StatusOr<v1::DecodeResponse> response);
  bool HasNews() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return has_answer_ || !pending_.empty() || !provisional_.empty();
  }

  const std::function<void()> wake_;
  ModelPtr model_;  // set before anything is decoded
  absl::Mutex mutex_;
  std::map<int, StablePrefix> samples_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> pending_ ABSL_GUARDED_BY(mutex_);  // samples with tokens that were not taken
  std::vector<engine::Provisional> provisional_ ABSL_GUARDED_BY(mutex_);
  TextEnd text_end_ ABSL_GUARDED_BY(mutex_);
  bool has_answer_ ABSL_GUARDED_BY(mutex_) = false;
  bool answer_taken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<v1::DecodeResponse> answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_DECODE_STREAM_H_
