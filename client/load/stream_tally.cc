#include "client/load/stream_tally.h"

#include <algorithm>

namespace beamwright::client {

void StreamTally::Begin() {
  absl::MutexLock lock(&mutex_);
  ++num_open_;
}

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
