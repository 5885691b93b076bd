// The frame driver: the encoder, where it reads sources chunk by chunk.
#include <algorithm>

#include "engine/frames/frame_driver.h"
#include "engine/model/parts.h"
#include "engine/request/engine_options.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

absl::Status FrameDriver::RunEncoder(const ops::ExecutionContext& context,
                                     absl::Span<FrameRequest* const> requests, Underway* underway) {
  under_way_.clear();
  for (const auto& request : requests_) {
    request->takes_part = false;
    under_way_.push_back(request.get());
  }
  for (FrameRequest* const request : requests) {
    request->takes_part = true;
  }
  const Underway::Scope scope(underway, *model_, under_way_, this);
  return encoder_->Run(context, requests);
}

void FrameDriver::TakeChunks(const ops::ExecutionContext& context,
                             absl::Span<FrameRequest* const> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    FrameRequest& request = *requests[i];
    if (request.is_answered) {
      continue;
    }
    const auto frames = encoder_->Advance(i, *request.chunks);
    absl::Status status = frames.ok() ? request.TakeChunk(context, *frames) : frames.status();
    if (!status.ok()) {
      // The encoder is the model's: the caller did nothing wrong.
      request.Fail(absl::InternalError(status.message()));
    } else if (request.is_stream()) {
      Proceed(request, status);
    }
  }
}

void FrameDriver::EncodeChunks(const ops::ExecutionContext& context, EngineObserver* observer,
                               Underway* underway) {
  encoded_.clear();
  for (const auto& request : requests_) {
    if (request->wants_chunk()) {
      encoded_.push_back(request.get());
    }
  }
  if (encoded_.empty()) {
    return;
  }
  // All have their turn: those with a number behind the last one's come first.
  std::sort(encoded_.begin(), encoded_.end(), [this](const auto* a, const auto* b) {
    return a->serial - last_encoded_ - 1 < b->serial - last_encoded_ - 1;
  });
  encoded_.resize(encoder_->NumTogether(encoded_.size()));
  last_encoded_ = encoded_.back()->serial;
  const absl::Time begin = SteadyNow();
  const absl::Status status = RunEncoder(context, encoded_, underway);
  if (status.ok()) {
    if (observer != nullptr) {
      const auto count = static_cast<int>(encoded_.size());
      observer->OnEncode(*model_, count, count * model_->parts().encoder()->streaming->chunk,
                         SteadyNow() - begin);
    }
    TakeChunks(context, encoded_);
    return;
  }
  if (absl::IsCancelled(status) && underway != nullptr && underway->was_interrupted()) {
    return;  // the next step does it without those who are gone
  }
  // What made them fail together may be one source alone.
  for (FrameRequest* const request : encoded_) {
    if (request->is_answered) {
      continue;
    }
    const absl::Status own =
        encoded_.size() == 1 ? status : RunEncoder(context, {&request, 1}, underway);
    if (own.ok()) {
      TakeChunks(context, {&request, 1});
    } else if (!absl::IsCancelled(own) || underway == nullptr || !underway->was_interrupted()) {
      request->Fail(absl::InternalError(own.message()));
    }
  }
}

}  // namespace beamwright::engine
