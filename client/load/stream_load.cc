// Measures streams of sound: RunStreamLoad has `streams` speakers, each of which speaks one source
// after another at the pace of real time, times `speed`.
//
// 1. Run keeps the speakers in a queue by the time of their next piece, on one thread; it sleeps
//    until the first is due, sends its piece (Speak), and puts it back. Speakers begin spread over
//    the length of their first source, so that they do not all send at once.
// 2. The client calls back for each message and at the end of a stream, on other threads:
//    StreamTally counts and measures.
// 3. If the run is stopped (^C), streams that are open are cancelled and do not count; else all of
//    them are heard to their end.
//
// Measured are the time from the begin of a stream to its first word, the time from the end of the
// speech to the summary (final latency), the real-time factor, how late this machine sent pieces
// (lag), and whether a final text contradicted a text that was called stable.
//
// Example of one speaker with a recording of 250 ms in pieces of 100 ms that begins at time 0: the
// stream is opened at 0, pieces are sent at 100, 200 and 250 ms, when their last sample has been
// spoken, and the next recording begins at 250 ms.
#include "client/load/stream_load.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

#include "absl/time/clock.h"
#include "client/async_calls.h"
#include "ops/base/status.h"

namespace beamwright::client {

namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);  // at `stop`

// A speaker of one source after the other.
struct Speaker {
  size_t source = 0;  // that is spoken
  size_t next = 0;    // piece of it; 0: a stream is to be begun
  absl::Time begin;
  absl::Time due;  // of that piece
  std::shared_ptr<RecognizeStream> stream;
};

class StreamLoad {
 public:
  StreamLoad(Client& client, const StreamLoadOptions& options)
      : client_(client), options_(options), piece_(options.piece / options.speed) {}

  StreamLoadReport Run() {
    const absl::Time begin = absl::Now();
    end_ = begin + options_.duration;
    std::vector<Speaker> speakers(static_cast<size_t>(options_.streams));
    const auto later = [](const Speaker* a, const Speaker* b) { return a->due > b->due; };
    std::priority_queue<Speaker*, std::vector<Speaker*>, decltype(later)> queue(later);
    for (size_t i = 0; i < speakers.size(); ++i) {
      Speaker& speaker = speakers[i];
      speaker.source = i % options_.sources.size();
      const absl::Duration spread = std::min(Length(speaker), options_.duration);
      speaker.due = begin + spread * (static_cast<double>(i) / options_.streams);
      queue.push(&speaker);
    }
    while (!queue.empty()) {
      Speaker* const speaker = queue.top();
      if (!SleepUntil(speaker->due)) {
        break;
      }
      queue.pop();
      tally_.Late(absl::Now() - speaker->due);
      if (Speak(*speaker)) {
        queue.push(speaker);
      }
    }
    if (IsStopped()) {
      tally_.Stop();
      for (const Speaker& speaker : speakers) {
        if (speaker.stream != nullptr) {
          speaker.stream->Cancel();
        }
      }
    }
    while (!tally_.WaitUntilNone(kLook)) {  // each has a deadline
    }
    StreamLoadReport report = tally_.Report();
    report.elapsed = absl::Now() - begin;
    return report;
  }

 private:
  bool IsStopped() const { return options_.stop != nullptr && options_.stop->load(); }
  bool SleepUntil(absl::Time due) const {
    for (absl::Time now = absl::Now(); now < due; now = absl::Now()) {
      if (IsStopped()) {
        return false;
      }
      absl::SleepFor(std::min(due - now, kLook));
    }
    return !IsStopped();
  }
  const std::vector<v1::RecognizeRequest>& PiecesOf(const Speaker& speaker) const {
    return options_.sources[speaker.source].pieces;
  }
  absl::Duration Length(const Speaker& speaker) const {
    return options_.sources[speaker.source].length / options_.speed;
  }

  // Begins a stream, or sends what has been spoken; false: nothing is left to say.
  bool Speak(Speaker& speaker) {
    const auto& pieces = PiecesOf(speaker);
    if (speaker.stream == nullptr) {
      if (speaker.due >= end_) {
        return false;
      }
      Begin(speaker);
    } else {
      speaker.stream->Send(pieces[speaker.next]);
      if (++speaker.next == pieces.size()) {
        speaker.stream->Finish();
        speaker.stream = nullptr;
        speaker.next = 0;
        speaker.source = (speaker.source + 1) % options_.sources.size();
        return true;  // the next one follows at once
      }
    }
    const absl::Duration spoken = piece_ * static_cast<double>(speaker.next + 1);
    speaker.due = speaker.begin + std::min(spoken, Length(speaker));
    return true;
  }

  void Begin(Speaker& speaker) {
    speaker.begin = speaker.due;
    const auto told = std::make_shared<StreamTally::Stream>();
    told->begin = speaker.begin;
    told->length = Length(speaker);
    told->sound = options_.sources[speaker.source].length;
    tally_.Begin();
    speaker.stream = client_.StartRecognize(
        options_.config, absl::Now() + told->length + options_.timeout,
        {[this, told](const v1::RecognizeResponse& message) {
           tally_.Hear(*told, message, absl::Now());
         },
         [this, told](const absl::Status& status) { tally_.End(*told, status); }});
  }

  Client& client_;
  const StreamLoadOptions& options_;
  const absl::Duration piece_;  // as fast as it is spoken here
  absl::Time end_;
  StreamTally tally_;
};

}  // namespace

absl::StatusOr<StreamLoadReport> RunStreamLoad(Client& client, const StreamLoadOptions& options) {
  if (options.streams < 1 || options.streams > kMaxConcurrency) {
    return Invalid("streams: ", options.streams, " is outside [1, ", kMaxConcurrency, "]");
  }
  if (options.sources.empty() ||
      std::any_of(options.sources.begin(), options.sources.end(),
                  [](const SpokenSource& source) { return source.pieces.empty(); })) {
    return Invalid("a source has no sound");
  }
  if (!(options.speed > 0) || options.piece <= absl::ZeroDuration() ||
      options.duration <= absl::ZeroDuration() || options.duration > kMaxLoadDuration) {
    return Invalid("speed, piece and duration must be positive, the duration at most ",
                   absl::FormatDuration(kMaxLoadDuration));
  }
  return StreamLoad(client, options).Run();
}

void StreamTally::Begin() {
  absl::MutexLock lock(&mutex_);
  ++num_open_;
}

// A segment that is complete must begin with the tokens that were called stable in it; tokens that
// become stable must follow those that are known, by their position.
void StreamTally::Hear(Stream& stream, const v1::RecognizeResponse& message, absl::Time now) {
  for (const v1::RecognizedSegment& segment : message.segments()) {
    static const v1::Hypothesis kNothing;
    const auto& tokens = (segment.hypotheses().empty() ? kNothing : segment.hypotheses(0)).tokens();
    const bool begins = static_cast<size_t>(tokens.size()) >= stream.stable.size() &&
                        std::equal(stream.stable.begin(), stream.stable.end(), tokens.begin());
    stream.is_contradicted = stream.is_contradicted || !begins;
    stream.stable.clear();
    ++stream.num_segments;
    HearWord(stream, now, !tokens.empty());
  }
  const auto& stable = message.stable();
  stream.is_contradicted =
      stream.is_contradicted ||
      (message.has_stable() && stable.position() != static_cast<int>(stream.stable.size()));
  stream.stable.insert(stream.stable.end(), stable.tokens().begin(), stable.tokens().end());
  HearWord(stream, now, !stable.tokens().empty());
  if (message.has_summary()) {
    stream.is_complete = true;
    stream.end = now;
  }
}

void StreamTally::HearWord(Stream& stream, absl::Time now, bool has_word) {
  if (has_word && !stream.has_word) {
    stream.has_word = true;
    word_.Record(now - stream.begin);
  }
}

// The final latency counts from when the last sample was spoken, the real-time factor from the
// begin of the stream: 1.02 for a recording of 10 s whose answer is complete 0.2 s after its end.
void StreamTally::End(const Stream& stream, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  --num_open_;
  if (stopped_) {
    return;
  }
  if (!status.ok() || !stream.is_complete) {
    const absl::Status why = status.ok() ? absl::InternalError("no summary came") : status;
    ++report_.failed[why.code()];
    report_.first_failure.Update(why);
    return;
  }
  ++report_.num_heard;
  report_.num_segments += stream.num_segments;
  report_.num_contradicted += stream.is_contradicted ? 1 : 0;
  report_.sound += stream.sound;
  final_.Record(stream.end - (stream.begin + stream.length));
  factor_.Record(
      absl::Microseconds(1000 * absl::FDivDuration(stream.end - stream.begin, stream.length)));
}

void StreamTally::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

bool StreamTally::WaitUntilNone(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_open_ == 0; };
  return mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
}

StreamLoadReport StreamTally::Report() {
  absl::MutexLock lock(&mutex_);
  report_.final_latency = PercentilesOf(final_);
  report_.first_word = PercentilesOf(word_);
  report_.real_time_factor = PercentilesOf(factor_);
  report_.lag = PercentilesOf(lag_);
  report_.stopped = stopped_;
  return report_;
}

}  // namespace beamwright::client
