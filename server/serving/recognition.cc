// A Recognize call as a state machine between three parties: the thread that adds the client's
// requests, the engine's callbacks, and the protocol, which takes messages (Take) after `wake_` was
// called. Requests go in, one by one; messages with segments, stable and provisional tokens come
// out, and at the end a summary or an error.
//
// 1. Requests are read in order (recognition_requests.cc). They bring the engine a feed of frames,
//    one source with all features, or windows of sound, each of which is one source
//    (recognition_windows.cc).
// 2. MayBegin: from here on the engine has the call or its next window (Stage::kDecodes).
// 3. OnProgress and OnAnswer store what the engine found: ended segments, the stable and
// provisional
//    tokens of the segment that goes on, the summary. A text that another model rewrites holds up
//    the segments behind it (Rewrite, recognition_windows.cc).
// 4. Take hands it out.
//
// The call ends once: the first of End and OnAnswer ends the stages and sets the status. It is also
// counted once: by OnAnswer where the engine has the call (Stage::kDecodes), else by End.
#include "server/serving/recognition.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/steady_time.h"

namespace beamwright::serving {
namespace {

Caller WithFlag(Caller caller, std::shared_ptr<const engine::CancelFlag> flag) {
  caller.cancelled = std::move(flag);
  return caller;
}

}  // namespace

Recognition::Recognition(Core& core, Caller caller, std::function<void()> wake,
                         std::function<void()> room)
    : core_(core),
      caller_(WithFlag(std::move(caller), stop_)),
      wake_(std::move(wake)),
      room_(std::move(room)),
      started_(SteadyNow()),
      heard_(started_) {}

Recognition::~Recognition() = default;

std::shared_ptr<Recognition> Recognition::Make(Core& core, Caller caller,
                                               std::function<void()> wake,
                                               std::function<void()> room) {
  std::shared_ptr<Recognition> made(
      new Recognition(core, std::move(caller), std::move(wake), std::move(room)));
  core.streams().Add(made);
  return made;
}

bool Recognition::MayBegin() {
  absl::MutexLock lock(&mutex_);
  if (!has_ended()) {
    stage_ = Stage::kDecodes;
  }
  return !has_ended();
}

engine::CallOptions Recognition::CallForEngine() {
  engine::CallOptions call = call_;
  call.feed = feed_;
  call.progress = [self = shared_from_this()](engine::Progress progress) {
    self->OnProgress(std::move(progress));
  };
  return call;
}

const char* Recognition::source_field() const {
  return sound_.has_value() || sound_windows_.has_value() ? "audio" : "features";
}

absl::Status Recognition::AtSource(const absl::Status& status) const {
  return status::WithFields(status, [this](absl::string_view name) {
    return absl::ConsumePrefix(&name, "source.features") ? absl::StrCat(source_field(), name)
                                                         : std::string(name);
  });
}

void Recognition::GiveUp() {
  stop_->Cancel();
  End(stop_->Outcome(caller_.deadline, SteadyNow()));
}

bool Recognition::EndIfIdle(absl::Time now, absl::Duration idle, const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    const bool is_complete = completed_ != absl::InfinitePast();
    if (has_ended() || is_complete) {
      return true;  // no more requests are expected
    }
    const bool is_rewriting = !segments_.empty() && !segments_.front().is_ready;
    if (is_reading_ || is_rewriting || (feed_ != nullptr && feed_->is_full()) ||
        windows_.size() >= kMostWindows) {
      heard_ = now;  // the call is full: the client cannot send, by no fault of its reading
    }
    if (now - heard_ < idle) {
      return false;
    }
  }
  End(why, Stage::kAnswered);
  return true;
}

bool Recognition::is_reading() const {
  absl::MutexLock lock(&mutex_);
  return is_reading_;
}

bool Recognition::is_full() const {
  absl::MutexLock lock(&mutex_);
  return !early_.empty() || (feed_ != nullptr && feed_->is_full()) ||
         windows_.size() >= kMostWindows || segments_.size() >= kMostSegments;
}

v1::RecognizedSegment Recognition::MakeSegment(engine::Segment segment,
                                               const SoundWindows::Window* window) {
  v1::RecognizedSegment made;
  made.set_number(summary_.num_segments());
  made.set_first_frame(segment.first_frame);
  made.set_num_frames(segment.num_frames);
  made.set_begin_ms(summary_.frame_ms() * static_cast<double>(segment.first_frame));
  made.set_end_ms(summary_.frame_ms() *
                  static_cast<double>(segment.first_frame + segment.num_frames));
  if (window != nullptr) {
    made.set_begin_ms(window->begin_ms);
    made.set_end_ms(window->end_ms);
  }
  for (v1::Hypothesis& hypothesis : segment.hypotheses) {
    *made.add_hypotheses() = std::move(hypothesis);
  }
  SetWords(*model_, made);
  summary_.set_num_segments(summary_.num_segments() + 1);
  summary_.set_num_frames(segment.first_frame + segment.num_frames);
  return made;
}

void Recognition::AddSegment(v1::RecognizedSegment segment) {
  // In memory it takes about four times as many bytes as on the wire.
  const int64_t bytes = 4 * static_cast<int64_t>(segment.ByteSizeLong());
  if (lacks_memory_ || !segments_hold_.Resize(segments_hold_.bytes() + bytes)) {
    lacks_memory_ = true;
    return;
  }
  EndedSegment& added = segments_.emplace_back();
  added.segment = std::move(segment);
  added.bytes = bytes;
  stable_ = {};
  provisional_.clear();
  const auto& hypotheses = added.segment.hypotheses();
  if (rewriter_ == nullptr || hypotheses.empty() || hypotheses[0].text().empty()) {
    return;
  }
  added.is_ready = false;
  core_.replies().Post([self = shared_from_this(), number = added.segment.number(),
                        text = hypotheses[0].text()] { self->Rewrite(number, text); });
}

void Recognition::EndIfMemoryLacks() {
  {
    absl::MutexLock lock(&mutex_);
    if (!lacks_memory_) {
      return;
    }
  }
  End(MemoryRunsShort(), Stage::kAnswered);
}

void Recognition::OnProgress(engine::Progress progress) {
  {
    absl::MutexLock lock(&mutex_);
    for (engine::Segment& segment : progress.segments) {
      AddSegment(MakeSegment(std::move(segment), nullptr));
    }
    for (const search::StableTokens::Piece& piece : progress.stable) {
      stable_.tokens.insert(stable_.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    if (!progress.provisional.empty()) {
      provisional_ = std::move(progress.provisional);
    }
    text_end_ = {std::move(progress.stop_strings), progress.prefix_length};
  }
  EndIfMemoryLacks();
  wake_();
}

engine::Segment Recognition::WholeSource(const v1::Decoded& decoded) {
  engine::Segment segment;
  segment.num_frames = decoded.steps();
  segment.hypotheses.assign(decoded.hypotheses().begin(), decoded.hypotheses().end());
  return segment;
}

void Recognition::OnAnswer(absl::StatusOr<v1::Decoded> answer) {
  absl::Status status = answer.status();
  bool was_stopped = false;
  {
    absl::MutexLock lock(&mutex_);
    was_stopped = has_ended();
    if (was_stopped) {
      status = end_;  // the reason for which the engine was stopped
    }
  }
  if (status.ok() && feed_ == nullptr) {
    absl::MutexLock lock(&mutex_);
    AddSegment(MakeSegment(WholeSource(*answer), nullptr));
    status = lacks_memory_ ? MemoryRunsShort() : status;
  }
  if (!status.ok()) {
    status = AtSource(status);
    answer = status;
  }
  CountSource(std::move(answer));
  core_.quarantine().Count(*model_, status.ok() ? 1 : 0, 0, SteadyNow());
  {
    absl::MutexLock lock(&mutex_);
    if (completed_ != absl::InfinitePast()) {
      summary_.set_final_ms(absl::ToDoubleMilliseconds(SteadyNow() - completed_));
    }
    stage_ = was_stopped ? stage_ : Stage::kAnswered;
    end_ = status;
  }
  wake_();
}

void Recognition::CountSource(absl::StatusOr<v1::Decoded> answer) {
  const absl::Status status = answer.status();
  v1::DecodeResponse response;
  CallWork work{1, &response, timelines_};
  if (answer.ok()) {
    work.queue_ms = answer->queue_ms();
    work.compute_ms = answer->compute_ms();
    *response.add_results()->mutable_decoded() = *std::move(answer);
  } else {
    *response.add_results()->mutable_error() = status::ToRpcStatus(status);
    work.num_failed = 1;
  }
  core_.calls().Count(caller_, model_.get(), status, started_, work);
  core_.metrics().CountSources(*model_, response);
}

void Recognition::End(const absl::Status& status, Stage ended) {
  Stage before = Stage::kNoSource;
  const engine::DecodeModel* model = nullptr;
  std::shared_ptr<engine::FrameFeed> feed;
  {
    absl::MutexLock lock(&mutex_);
    if (has_ended()) {
      return;
    }
    feed = feed_;
    model = model_.get();
    before = std::exchange(stage_, ended);
    end_ = status;
  }
  if (before == Stage::kDecodes) {
    // The call is counted when the engine has let go of it.
    stop_->Cancel();
    if (feed != nullptr) {
      feed->GiveUp();
    }
  } else if (before == Stage::kWaits) {
    CountSource(status);
  } else {
    core_.calls().Count(caller_, model, status, started_, {});
    core_.metrics().CountRejection(status);
  }
  wake_();
}

Recognition::Taken Recognition::Take(v1::RecognizeResponse& message, absl::Status& end) {
  Taken taken = Taken::kNothing;
  bool has_room = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool was_full = segments_.size() >= kMostSegments;
    taken = TakeNow(message, end);
    has_room = was_full && segments_.size() < kMostSegments;
  }
  if (has_room) {
    room_();
  }
  return taken;
}

Recognition::Taken Recognition::TakeNow(v1::RecognizeResponse& message, absl::Status& end) {
  message.Clear();
  // 1. After the end: an error, except that segments which the engine had found before its error
  //    are sent first.
  const bool has_rest = stage_ == Stage::kAnswered && !segments_.empty();
  if (has_ended() && (stage_ == Stage::kTaken || (!end_.ok() && !has_rest))) {
    end = end_;
    return Taken::kEnd;
  }
  // 2. Segments, in order, up to the first whose text is still being rewritten.
  for (; !segments_.empty() && segments_.front().is_ready; segments_.pop_front()) {
    *message.add_segments() = std::move(segments_.front().segment);
    segments_hold_.Resize(segments_hold_.bytes() - segments_.front().bytes);
  }
  if (!segments_.empty()) {  // its text is being rewritten: later news waits
    return message.segments().empty() ? Taken::kNothing : Taken::kMessage;
  }
  if (!has_ended() && message.segments().empty() && !stable_.has_news() && provisional_.empty()) {
    return Taken::kNothing;
  }
  // 3. News of the segment that goes on: stable tokens; then the summary, or the newest provisional
  //    hypotheses.
  if (stable_.has_news()) {
    TakeStable(*model_, text_end_, stable_, *message.mutable_stable());
  }
  if (has_ended() && end_.ok()) {
    *message.mutable_summary() = summary_;
    stage_ = Stage::kTaken;
  } else if (!provisional_.empty()) {
    *message.mutable_provisional() = MakeProvisional(*model_, text_end_, provisional_[0]);
    for (size_t i = 1; i < provisional_.size(); ++i) {
      *message.add_alternatives() = MakeProvisional(*model_, text_end_, provisional_[i]);
    }
    provisional_.clear();
  }
  return Taken::kMessage;
}

}  // namespace beamwright::serving
