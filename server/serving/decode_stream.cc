// A decoding whose answer is sent piece by piece (StreamDecode). It is a Decode of one source whose
// engine reports progress.
//
// 1. Start turns the request into one of Decode, and begins it once the model is in memory.
// 2. Add, on an engine's thread, keeps tokens that have become stable, by sample, and the last
//    provisional hypothesis; End keeps the answer. Both wake the protocol's side.
// 3. Take, on the protocol's side, makes one message of all that has come since: a slow client gets
//    fewer and longer messages.
//
// First what clients receive of a hypothesis before its search ends, in streams of every kind.
#include "server/serving/decode_stream.h"

#include <algorithm>
#include <utility>

#include "engine/request/answers.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {

void TakeStable(const engine::DecodeModel& model, const TextEnd& end, StablePrefix& prefix,
                v1::StableTokens& message) {
  message.set_position(static_cast<int>(prefix.num_taken));
  message.mutable_tokens()->Add(
      prefix.tokens.begin() + static_cast<std::ptrdiff_t>(prefix.num_taken), prefix.tokens.end());
  message.set_text(engine::AnswerText(model.target(), prefix.tokens, end.prefix_length,
                                      end.stop_strings.get(), /*unfinished=*/true));
  prefix.num_taken = prefix.tokens.size();
}

v1::Hypothesis MakeProvisional(const engine::DecodeModel& model, const TextEnd& end,
                               const engine::Provisional& hypothesis) {
  v1::Hypothesis made;
  made.mutable_tokens()->Add(hypothesis.tokens.begin(), hypothesis.tokens.end());
  made.mutable_token_frames()->Add(hypothesis.frames.begin(), hypothesis.frames.end());
  made.set_text(engine::AnswerText(model.target(), hypothesis.tokens, end.prefix_length,
                                   end.stop_strings.get(), /*unfinished=*/true));
  made.set_score(hypothesis.score);
  return made;
}

void SetWords(const engine::DecodeModel& model, v1::RecognizedSegment& segment) {
  segment.clear_words();
  if (segment.hypotheses().empty() || model.config().frame_ms() <= 0) {
    return;
  }
  engine::FillWords(model, *segment.mutable_hypotheses());
  for (v1::Word& word : *segment.mutable_hypotheses(0)->mutable_words()) {
    if (word.has_begin_ms()) {
      word.set_begin_ms(segment.begin_ms() + word.begin_ms());
      word.set_end_ms(segment.begin_ms() + word.end_ms());
      *segment.add_words() = std::move(word);
    }
  }
  for (v1::Hypothesis& hypothesis : *segment.mutable_hypotheses()) {
    hypothesis.clear_words();
  }
}

namespace {

// The call as one of Decode, with its only source.
absl::StatusOr<v1::DecodeRequest> ToDecodeRequest(
    absl::StatusOr<v1::StreamDecodeRequest>& request) {
  if (!request.ok()) {
    return request.status();
  }
  v1::DecodeRequest decode;
  decode.set_model(request->model());
  decode.set_version(request->version());
  *decode.add_sources() = std::move(*request->mutable_source());
  *decode.mutable_options() = std::move(*request->mutable_options());
  return decode;
}

}  // namespace

std::shared_ptr<DecodeStream> DecodeStream::Start(Core& core,
                                                  absl::StatusOr<v1::StreamDecodeRequest> request,
                                                  const Caller& caller,
                                                  std::function<void()> wake) {
  const std::shared_ptr<DecodeStream> stream(new DecodeStream(std::move(wake)));
  Caller streaming = caller;
  streaming.wants_provisional = request.ok() && request->provisional();
  streaming.progress = [stream](engine::Progress progress) { stream->Add(std::move(progress)); };
  WithModel(core.models(), ToDecodeRequest(request), caller.deadline,
            [&core, stream, streaming](absl::StatusOr<v1::DecodeRequest> ready) {
              absl::StatusOr<Job> job = MakeJob(core.models(), std::move(ready));
              if (job.ok()) {
                absl::MutexLock lock(&stream->mutex_);
                stream->model_ = job->model;
              }
              DecodeJob(core, std::move(job), streaming,
                        [stream](absl::StatusOr<v1::DecodeResponse> response) {
                          stream->End(std::move(response));
                        });
            });
  return stream;
}

void DecodeStream::Add(engine::Progress progress) {
  {
    absl::MutexLock lock(&mutex_);
    for (const search::StableTokens::Piece& piece : progress.stable) {
      StablePrefix& sample = samples_[piece.sample];
      sample.tokens.insert(sample.tokens.end(), piece.tokens.begin(), piece.tokens.end());
      if (std::find(pending_.begin(), pending_.end(), piece.sample) == pending_.end()) {
        pending_.push_back(piece.sample);
      }
    }
    text_end_ = {std::move(progress.stop_strings), progress.prefix_length};
    if (!progress.provisional.empty()) {
      provisional_ = std::move(progress.provisional);
    }
  }
  if (wake_ != nullptr) {
    wake_();
  }
}

void DecodeStream::End(absl::StatusOr<v1::DecodeResponse> response) {
  {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(response);
    has_answer_ = true;
  }
  if (wake_ != nullptr) {
    wake_();
  }
}

DecodeStream::Taken DecodeStream::Take(v1::StreamDecodeResponse& message, absl::Status& end) {
  absl::MutexLock lock(&mutex_);
  message.Clear();
  if (!HasNews()) {
    return Taken::kNothing;
  }
  if (has_answer_ && (answer_taken_ || !answer_.ok())) {
    end = answer_.ok() ? absl::OkStatus() : answer_.status();
    return Taken::kEnd;
  }
  for (const int number : pending_) {
    v1::StableTokens& stable = *message.add_stable();
    stable.set_sample(number);
    TakeStable(*model_, text_end_, samples_[number], stable);
  }
  pending_.clear();
  if (has_answer_) {
    answer_taken_ = true;
    *message.mutable_decoded() = std::move(*answer_->mutable_results(0)->mutable_decoded());
    message.set_model(answer_->model());
    message.set_version(answer_->version());
    message.set_numerics(answer_->numerics());
  } else if (!provisional_.empty()) {
    *message.mutable_provisional() = MakeProvisional(*model_, text_end_, provisional_[0]);
  }
  provisional_.clear();
  return Taken::kMessage;
}

void DecodeStream::Wait(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &DecodeStream::HasNews), most);
}

}  // namespace beamwright::serving
