// The frame driver: replies and progress callbacks.
#include <algorithm>
#include <new>
#include <utility>

#include "engine/frames/frame_driver.h"
#include "engine/frames/frame_reply.h"
#include "engine/request/engine_options.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {

void FrameDriver::TellCancelled(FrameRequest& request, absl::Time now,
                                EngineObserver& observer) const {
  const absl::Time when = request.call.cancelled->when(now);
  const int steps = request.num_steps == 0 ? 0 : when >= looked_ ? 1 : 2;
  observer.OnCancelled(*model_, steps, std::max(now - when, absl::ZeroDuration()));
}

void FrameDriver::TellProgress(FrameRequest& request) {
  if (request.call.progress == nullptr || request.frame_search() == nullptr) {
    return;
  }
  Progress progress;
  progress.segments.swap(request.ended);
  const size_t known = request.stable.size();
  // Of a stream that is over all is in its segments; its search is still that of the last one.
  if (!request.is_stream() || !request.is_done) {
    request.frame_search()->AddStableLabels(request.stable);
  }
  if (request.stable.size() > known) {
    search::StableTokens::Piece& piece = progress.stable.emplace_back();
    piece.position = static_cast<int>(known);
    piece.tokens.assign(request.stable.begin() + static_cast<std::ptrdiff_t>(known),
                        request.stable.end());
    if (request.first_token == absl::InfinitePast()) {
      request.first_token = SteadyNow();
    }
  }
  if (request.call.num_provisional > 0 && !request.is_done && !request.is_scoring) {
    std::vector<search::FrameHypothesis> alive = request.frame_search()->Results();
    // While nothing leads, as in silence, there is nothing to report.
    const size_t count = alive.empty() || alive[0].labels.empty() ? 0 : alive.size();
    alive.resize(std::min(count, static_cast<size_t>(request.call.num_provisional)));
    for (search::FrameHypothesis& hypothesis : alive) {
      Provisional& told = progress.provisional.emplace_back();
      told.tokens = std::move(hypothesis.labels);
      told.score = hypothesis.score;
      told.frames.reserve(hypothesis.times.size());
      for (const search::LabelTime& time : hypothesis.times) {
        told.frames.push_back(static_cast<int32_t>(time.first_frame));
      }
    }
  }
  if (!progress.segments.empty() || !progress.stable.empty() || !progress.provisional.empty()) {
    request.call.progress(std::move(progress));
  }
}

void FrameDriver::Finish(FrameRequest& request) {
  FaultPoint("engine.reply").IgnoreError();
  Timeline* const timeline = request.call.timeline;
  if (timeline != nullptr) {
    timeline->searched = SteadyNow();
  }
  const auto give = [&request, timeline](auto reply) {
    if (timeline != nullptr) {
      timeline->written = SteadyNow();
    }
    request.Give(std::move(reply));
  };
  if (request.is_stream()) {
    request.source.source_length = static_cast<int>(request.num_frames);
  }
  if (request.frame_search() == nullptr) {
    give(MakeFrameScored(request));
  } else {
    give(MakeFrameReply(request));
  }
}

void FrameDriver::AnswerMeanwhile(absl::Time now, const absl::Status& end,
                                  EngineObserver* observer) {
  const auto look = [&](FrameRequest& request) {
    if (request.is_answered) {
      return;
    }
    const bool at_deadline = now >= request.cut_at;
    try {
      if ((at_deadline || (!end.ok() && request.may_be_cut)) && !request.call.IsCancelled() &&
          request.Cut(at_deadline ? v1::FINISH_REASON_DEADLINE : v1::FINISH_REASON_SHUTDOWN)) {
        TellProgress(request);
        Finish(request);
        return;
      }
    } catch (const std::bad_alloc&) {
      request.Fail(status::OutOfMemory());
      return;
    }
    const absl::Status status = end.ok() ? request.CheckAlive(now) : end;
    if (observer != nullptr && end.ok() && absl::IsCancelled(status)) {
      TellCancelled(request, now, *observer);
    }
    if (!status.ok()) {
      request.Fail(status);
    }
  };
  for (const auto& request : requests_) {
    look(*request);
  }
  for (const auto& [number, request] : aside_) {
    look(*request);
    answered_aside_ = answered_aside_ || request->is_answered;
  }
}

void FrameDriver::End(const absl::Status& why) {
  TakeAllBack();
  CutSearches(v1::FINISH_REASON_SHUTDOWN,
              [](const FrameRequest& request) { return request.may_be_cut; });
  for (const auto& request : requests_) {
    request->Fail(why);
  }
  DropAnswered();
}

void FrameDriver::FailAll(const absl::Status& why) {
  has_failed_ = true;
  TakeAllBack();
  for (const auto& request : requests_) {
    if (request != nullptr) {  // a step that was broken off has taken it
      request->Fail(why);
    }
  }
  requests_.erase(std::remove(requests_.begin(), requests_.end(), nullptr), requests_.end());
  DropAnswered();
}

}  // namespace beamwright::engine
