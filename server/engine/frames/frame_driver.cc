#include "server/engine/frames/frame_driver.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/step_profile.h"

namespace beamwright::engine {

void FrameDriver::Join(std::unique_ptr<Request> request) {
  // Requests of a model are of its kind.
  requests_.emplace_back(static_cast<FrameRequest*>(request.release()));
}

template <typename Which>
void FrameDriver::CutSearches(v1::FinishReason reason, Which which) {
  for (const auto& request : requests_) {
    if (which(*request) && !request->call.IsCancelled() && request->Cut(reason)) {
      TellProgress(*request);
      Finish(*request);
    }
  }
}

void FrameDriver::FailDead(absl::Time now, EngineObserver* observer) {
  for (const auto& request : requests_) {
    const absl::Status status = request->is_answered ? absl::OkStatus() : request->CheckAlive(now);
    if (status.ok()) {
      continue;
    }
    if (observer != nullptr && absl::IsCancelled(status)) {
      TellCancelled(*request, now, *observer);
    }
    request->Fail(status);
  }
  looked_ = now;
}

void FrameDriver::DropAnswered() {
  for (auto& request : requests_) {
    if (request->is_answered) {
      stepper_->Leave(*request);
      request = nullptr;
    }
  }
  requests_.erase(std::remove(requests_.begin(), requests_.end(), nullptr), requests_.end());
}

absl::Status FrameDriver::RunModel(const ops::ExecutionContext& context, Underway* underway) {
  stepped_.clear();
  under_way_.clear();
  for (const auto& request : requests_) {
    request->takes_part = !repeats_ || request->takes_part;
    if (request->takes_part) {
      stepped_.push_back(request.get());
    }
    under_way_.push_back(request.get());
  }
  const Underway::Scope scope(underway, *model_, under_way_, this);
  BW_RETURN_IF_ERROR(FaultPoint("engine.step"));
  return stepper_->RunModel(context, stepped_);
}

void FrameDriver::AdvanceAll(const ops::ExecutionContext& context) {
  for (FrameRequest* const request : stepped_) {
    request->status = absl::OkStatus();
    if (!request->is_answered && request->frame_search() != nullptr && !request->is_scoring) {
      request->row_steps += static_cast<int64_t>(request->frame_search()->rows().size());
    }
  }
  stepper_->Advance(context, stepped_);
  for (FrameRequest* const request : stepped_) {
    if (request->is_answered) {
      continue;
    }
    ++request->num_steps;
    if (request->call.timeline != nullptr) {
      request->call.timeline->Step();
    }
    absl::Status status = request->status;
    status.Update(status.ok() ? request->EnterPhase() : absl::OkStatus());
    if (!status.ok()) {
      // The caller did nothing wrong when a model's score is not a log-probability.
      request->Fail(absl::IsInvalidArgument(status) ? absl::InternalError(status.message())
                                                    : status);
      continue;
    }
    TellProgress(*request);
    if (request->is_done) {
      ++num_done_;
      Finish(*request);
    }
  }
}

void FrameDriver::EndStep(const absl::Status& status, const Underway* underway) {
  const bool is_interrupted =
      absl::IsCancelled(status) && underway != nullptr && underway->was_interrupted();
  const bool any_left = std::any_of(requests_.begin(), requests_.end(),
                                    [](const auto& request) { return !request->is_answered; });
  if (!is_interrupted || !any_left) {
    FailAll(absl::InternalError(status.message()));
    return;
  }
  repeats_ = true;
}

absl::Duration FrameDriver::Step(const ops::ExecutionContext& context, EngineObserver* observer,
                                 Underway* underway) {
  most_bytes_ = std::max(most_bytes_, reserved().bytes);
  const absl::Time now = absl::Now();
  CutSearches(v1::FINISH_REASON_DEADLINE,
              [now](const FrameRequest& request) { return now >= request.cut_at; });
  FailDead(now, observer);
  DropAnswered();
  repeats_ = repeats_ && std::any_of(requests_.begin(), requests_.end(),
                                     [](const auto& request) { return request->takes_part; });
  absl::Duration selection;
  if (!requests_.empty()) {
    const PhaseScope phase(Phase::kOther);
    const auto start = StepProfile::Clock::now();
    const absl::Status status = RunModel(context, underway);
    if (status.ok()) {
      const PhaseScope search_phase(Phase::kSearch);
      const absl::Time scan = observer == nullptr ? absl::Time() : absl::Now();
      AdvanceAll(context);
      selection = observer == nullptr ? absl::Duration() : absl::Now() - scan;
      repeats_ = false;
      DropAnswered();
    } else {
      EndStep(status, underway);
    }
    if (StepProfile* const profile = StepProfile::current(); profile != nullptr) {
      profile->AddStep(StepProfile::Clock::now() - start);
    }
  }
  return selection;
}

}  // namespace beamwright::engine
