// Recognition: a Recognize call between a client, which sends when it likes and may not read, the
// engine, which waits for neither, and what stands between them: features of sound, segments. What
// is known gathers until it is taken, of the provisional hypothesis only the newest, so that a call
// holds no more than its answer. The same for every protocol.
//
// Frames of an encoder that runs elsewhere are searched as they come, and an encoder that reads
// chunk by chunk is run as they come. One that reads the whole source gets it when it is complete,
// and what comes of it is one segment. With `endpoint` it gets sound in windows (sound_windows.h),
// one after the other, each of which is a segment, as a decoder that chooses token after token
// (Whisper) always does. Texts of segments may be rewritten by another model.
//
// What takes long, to read options with a pattern and large pieces of sound, is done on a thread
// where clients take turns (Core::long_work). What the client sends meanwhile waits.
#ifndef BEAMWRIGHT_SERVER_SERVING_RECOGNITION_H_
#define BEAMWRIGHT_SERVER_SERVING_RECOGNITION_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/request/prepared_source.h"
#include "engine/sound/sound_stream.h"
#include "server/serving/caller.h"
#include "server/serving/core.h"
#include "server/serving/decode_stream.h"
#include "server/serving/serving_state.h"
#include "server/serving/sound_windows.h"

namespace beamwright::serving {

// Most bytes of sound or frames in one request.
inline constexpr size_t kMaxPieceBytes = size_t{1} << 20;

// Thread-safe, but that one thread at a time may Add or Finish.
class Recognition : public std::enable_shared_from_this<Recognition> {
 public:
  // wake: called, on any thread and perhaps within Add and Finish, when there is something to take.
  // room: called when is_full has changed to false. Both must return at once.
  static std::shared_ptr<Recognition> Make(Core& core, Caller caller, std::function<void()> wake,
                                           std::function<void()> room);
  ~Recognition();

  // The client's next request; an error of reading it ends the call with it.
  void Add(absl::StatusOr<v1::RecognizeRequest> request);
  // It sends no more.
  void Finish();
  // Its caller is gone. On any thread.
  void GiveUp();
  // Ends the call, with the segments that were found and this status, if its client, which is to
  // send more, has sent nothing for `idle`. True: the call has ended, or all of its source has
  // come.
  bool EndIfIdle(absl::Time now, absl::Duration idle, const absl::Status& why);
  // The client should wait for `room` before it sends more.
  bool is_full() const;

  // Whether a request that was added is still being read: an error of it is yet to come. `wake` is
  // called after.
  bool is_reading() const;

  // The model that is asked for, once the configuration was taken; null before. For who adds.
  const engine::DecodeModel* model() const { return model_.get(); }

  using Taken = serving::Taken;
  // What there is since the last time: a message, or nothing yet, or the end of the call with its
  // status, after the message with the summary. Sets `message` or `end`.
  Taken Take(v1::RecognizeResponse& message, absl::Status& end);

 private:
  Recognition(Core& core, Caller caller, std::function<void()> wake, std::function<void()> room);

  // How far the call is, in this order.
  enum class Stage {
    kNoSource,  // the configuration was not taken
    kWaits,     // for the rest of its source, or of the next window
    kDecodes,   // the engine has it
    // It has ended, as `end_` says ...
    kEnded,     // ... and on an error nothing that was found is taken any more
    kAnswered,  // ... by no fault of its requests: segments that were found are taken before an
                // error
    kTaken,     // ... and its summary was taken
  };

  // Of requests (recognition_requests.cc). Each fails with what is wrong with the request.
  // As Dispatch; an error of the request, or an allocation that fails, is an error as well.
  absl::Status Read(const absl::StatusOr<v1::RecognizeRequest>& request);
  absl::Status Dispatch(const v1::RecognizeRequest& request);
  absl::Status Open(const v1::RecognizeConfig& config);
  // What of the configuration is checked against the model: the second half of Open.
  absl::Status ReadConfig(const v1::RecognizeConfig& config);
  // Reads `config`, unless null, and then what waits, on the thread for long work.
  void ReadLater(const v1::RecognizeConfig* config);
  // That, in its turn. status: if it is an error, the call ends with it.
  void ReadWaiting(absl::Status status);
  // Whether `request`, null for the end of requests, is read later, or is to be dropped because the
  // call has ended.
  bool Defer(absl::StatusOr<v1::RecognizeRequest>* request);
  void FinishNow();
  absl::Status OpenSound(const v1::RecognizeConfig& config);
  // Holds memory for pieces that the engine has not read; false if memory lacks.
  bool HoldFeed();
  absl::Status AddFeatures(const v1::Tensor& features);
  // Hands a piece to the engine.
  absl::Status Feed(absl::StatusOr<engine::PreparedSource> piece);
  absl::Status AddSound(const std::string& bytes);
  // What sound became, if it was enough for a frame.
  absl::Status AddFeaturesOfSound(const std::vector<float>& features);
  absl::Status CheckCollected(int64_t most) const;
  absl::Status Complete();

  void Begin();
  // Whether the engine may have the call, which is from now on its to answer; false: the caller has
  // gone, and the call was counted.
  bool MayBegin();
  // The call's options for the engine.
  engine::CallOptions CallForEngine();
  // The field of a request that brings the source.
  const char* source_field() const;
  // An error of the engine, which names the source "source.features", as the client has it.
  absl::Status AtSource(const absl::Status& status) const;
  void OnProgress(engine::Progress progress);
  void OnAnswer(absl::StatusOr<v1::Decoded> answer);
  // Counts the call and its source, with what became of them.
  void CountSource(absl::StatusOr<v1::Decoded> answer);
  // The call ends, with OK once its last segment is there.
  void End(const absl::Status& status, Stage ended = Stage::kEnded);
  // window: what it was heard in, null if it is a part of a stream.
  v1::RecognizedSegment MakeSegment(engine::Segment segment, const SoundWindows::Window* window)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSegment(v1::RecognizedSegment segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call if there was no memory for a segment.
  void EndIfMemoryLacks();

  // Of texts that another model rewrites (recognition_windows.cc). FailedPrecondition: it is not
  // served, or does not read and write texts.
  absl::Status FindRewriter();
  absl::Status OpenRewriter();
  void Rewrite(int number, const std::string& text);
  void OnRewritten(int number, const absl::StatusOr<v1::Decoded>& answer);
  // What a model with an encoder found, as the one segment that it is.
  static engine::Segment WholeSource(const v1::Decoded& decoded);

  // Of sound in windows (recognition_windows.cc).
  // The language that the configuration asks for, in `asked_`. InvalidArgument naming `language`.
  absl::Status SetWindowLanguage(const v1::RecognizeConfig& config);
  void TakeWindows();
  // Decodes the next window, unless one is being decoded; ends the call behind the last one.
  void StartWindow();
  void EndWindows();
  absl::Status DecodeNextWindow();
  void DecodeWindow(engine::PreparedSource source);
  void OnLanguage(engine::PreparedSource source, absl::StatusOr<v1::Decoded> answer);
  // Decodes the window by `asked_`, in which the language was just set.
  void DecodeInLanguage(engine::PreparedSource source);
  void OnWindow(absl::StatusOr<v1::Decoded> answer);
  // Adds what was found in the window, and waits for the next one.
  void AddWindow(const v1::Decoded& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A client waits while this many windows do.
  static constexpr size_t kMostWindows = 2;
  // And while this many segments are not taken: a client that does not read must not send on.
  static constexpr size_t kMostSegments = 64;
  Taken TakeNow(v1::RecognizeResponse& message, absl::Status& end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Core& core_;
  const std::shared_ptr<engine::CancelFlag> stop_ = std::make_shared<engine::CancelFlag>();
  const Caller caller_;  // with that flag
  const std::function<void()> wake_;
  const std::function<void()> room_;
  const absl::Time started_;
  std::optional<ServingState::OpenCall> open_call_;

  // Of the requests.
  enum class Phase { kNew, kOpen, kComplete };
  Phase phase_ = Phase::kNew;
  ModelPtr model_;  // set once, under the mutex, by who adds
  std::shared_ptr<const engine::ResolvedOptions> options_;
  v1::DecodeOptions asked_;      // what they are made of
  bool hears_language_ = false;  // the next window says it
  bool writes_times_ = false;    // answers of windows are split at their times
  ModelPtr rewriter_;            // null: texts stay as they are
  std::shared_ptr<const engine::ResolvedOptions> rewriter_options_;
  engine::CallOptions call_;
  std::optional<sound::SoundStream> sound_;
  std::optional<SoundWindows> sound_windows_;  // in the place of sound_
  v1::AudioFormat audio_format_;               // of them
  std::vector<float> collected_;  // features for an encoder that reads the whole source
  int64_t num_columns_ = 0;       // of them
  std::vector<engine::Timeline> timelines_;

  // Where frames go; null: they are collected. Set once, under the mutex, by who adds.
  std::shared_ptr<engine::FrameFeed> feed_;

  mutable absl::Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kNoSource;
  bool has_ended() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stage_ >= Stage::kEnded; }
  // What is read later, in order; an empty one: the client sends no more.
  std::deque<std::optional<absl::StatusOr<v1::RecognizeRequest>>> early_ ABSL_GUARDED_BY(mutex_);
  MemoryAccount::Hold early_hold_ ABSL_GUARDED_BY(mutex_) = core_.memory().MakeHold();
  MemoryAccount::Hold feed_hold_ ABSL_GUARDED_BY(mutex_) = core_.memory().MakeHold();
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time heard_ ABSL_GUARDED_BY(mutex_);  // when the client sent something, or had to wait
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  absl::Time completed_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  v1::RecognizeSummary summary_ ABSL_GUARDED_BY(mutex_);
  struct EndedSegment {
    v1::RecognizedSegment segment;
    int64_t bytes = 0;     // of segments_hold_
    bool is_ready = true;  // false: its text is being rewritten
  };
  std::deque<EndedSegment> segments_ ABSL_GUARDED_BY(mutex_);  // not taken yet
  MemoryAccount::Hold segments_hold_ ABSL_GUARDED_BY(mutex_) = core_.memory().MakeHold();
  bool lacks_memory_ ABSL_GUARDED_BY(mutex_) = false;  // for a segment
  StablePrefix stable_ ABSL_GUARDED_BY(mutex_);        // of the segment that goes on
  std::vector<engine::Provisional> provisional_ ABSL_GUARDED_BY(mutex_);  // of it, not taken yet
  TextEnd text_end_ ABSL_GUARDED_BY(mutex_);
  std::deque<SoundWindows::Window> windows_ ABSL_GUARDED_BY(mutex_);  // that wait
  SoundWindows::Window window_ ABSL_GUARDED_BY(mutex_);               // being decoded
  bool has_all_windows_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Decoded all_windows_ ABSL_GUARDED_BY(mutex_);  // for the counts
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_RECOGNITION_H_
