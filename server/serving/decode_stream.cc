// A decoding whose answer is sent piece by piece (StreamDecode). It is a Decode of one source whose
// engine reports progress.
//
// 1. Start turns the request into one of Decode, and begins it once the model is in memory.
// 2. Add, on an engine's thread, keeps tokens that have become stable, by sample, and the last
//    provisional hypothesis; End keeps the answer. Both wake the protocol's side.
// 3. Take, on the protocol's side, makes one message of all that has come since: a slow client gets
//    fewer and longer messages.
#include "server/serving/decode_stream.h"

#include <algorithm>
#include <utility>

#include "server/serving/model_registry.h"

namespace beamwright::serving {
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
