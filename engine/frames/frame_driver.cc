#include "engine/frames/frame_driver.h"

#include <algorithm>

#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/step_profile.h"

namespace beamwright::engine {
namespace {

// About this many rows of streams run in a step; the rows of other streams wait for the next.
constexpr int kMostStreamRows = 1024;

// A stream whose search has this many unread frames is not read further.
constexpr int64_t kMostUnread = 256;

absl::Status NoFrames() { return status::InvalidField("source", "has no frames"); }

}  // namespace

void FrameDriver::Join(std::unique_ptr<Request> request) {
  // Requests of a model are of its kind.
  requests_.emplace_back(static_cast<FrameRequest*>(request.release()));
  requests_.back()->serial = ++num_joined_;
}

Reserved FrameDriver::reserved() const {
  Reserved all = ReservedFor(requests_);
  all += aside_reserved_;
  return all;
}

int FrameDriver::num_rows() const {
  int rows = 0;
  for (const auto& request : requests_) {
    rows += request->beam_size;
  }
  return rows;
}

absl::Time FrameDriver::next_work() const {
  return requests_.empty() && woken_->empty() ? next_due_ : absl::InfinitePast();
}

void FrameDriver::TakeAllBack() {
  for (auto& [number, request] : aside_) {
    requests_.push_back(std::move(request));
  }
  aside_.clear();
  aside_reserved_ = {};
  next_due_ = absl::InfiniteFuture();
  answered_aside_ = false;
}

void FrameDriver::TakeBack(absl::Time now) {
  if (answered_aside_) {
    TakeAllBack();
  }
  const auto take = [this](auto found) {
    aside_reserved_ -= found->second->reserved();
    requests_.push_back(std::move(found->second));
    return aside_.erase(found);
  };
  for (const uint64_t number : woken_->Take()) {
    if (const auto found = aside_.find(number); found != aside_.end()) {
      take(found);
    }
  }
  if (now < next_due_) {
    return;
  }
  next_due_ = absl::InfiniteFuture();
  for (auto it = aside_.begin(); it != aside_.end();) {
    const absl::Time due = std::min(it->second->cut_at, it->second->call.deadline);
    if (due <= now) {
      it = take(it);
    } else {
      next_due_ = std::min(next_due_, due);
      ++it;
    }
  }
}

absl::Status FrameDriver::TakeNews(const ops::ExecutionContext& context, FrameRequest& request) {
  // A client that sends faster waits at the feed and gets back-pressure.
  const int64_t unread = request.num_frames - request.segment_begin - request.num_announced;
  if (unread >= kMostUnread || request.wants_chunk()) {
    return absl::OkStatus();
  }
  FrameFeed::News news = request.call.feed->Take();
  if (request.chunks == nullptr) {
    for (const ops::Tensor& piece : news.pieces) {
      BW_RETURN_IF_ERROR(request.TakePiece(context, piece));
    }
    request.is_complete = request.is_complete || news.is_complete;
    return request.is_complete && request.num_frames == 0 ? NoFrames() : absl::OkStatus();
  }
  for (const ops::Tensor& piece : news.pieces) {
    request.chunks->Add(piece);
  }
  if (news.is_complete) {
    request.chunks->Finish();
    request.is_complete = request.chunks->is_exhausted();
  }
  return news.is_complete && request.chunks->is_empty() ? NoFrames() : absl::OkStatus();
}

void FrameDriver::Proceed(FrameRequest& request, const absl::Status& status) {
  const absl::Status gone_on = status.ok() ? GoOn(request) : status;
  if (!request.ended.empty()) {
    TellProgress(request);
  }
  if (!gone_on.ok()) {
    request.Fail(gone_on);
  } else if (request.is_done) {
    ++num_done_;
    Finish(request);
  }
}

void FrameDriver::TakeAllNews(const ops::ExecutionContext& context) {
  for (const auto& request : requests_) {
    if (!request->is_stream() || request->is_answered) {
      continue;
    }
    Proceed(*request, TakeNews(context, *request));
  }
}

absl::Status FrameDriver::GoOn(FrameRequest& request) {
  while (!request.is_done && request.frame_search()->rows().empty()) {
    if (request.frame_search()->done()) {
      request.KeepSegment();
      request.LeaveSegment();
      if (!request.is_done) {
        stepper_->Leave(request);
        request.StartSearch();
        request.GiveBackRoom();
      }
    } else if (!request.Announce()) {
      if (!request.needs_room()) {
        return absl::OkStatus();
      }
      if (absl::Status status = request.MakeRoom(); !status.ok()) {
        request.Cut(request.reason);
        return status;
      }
    }
  }
  return absl::OkStatus();
}

void FrameDriver::SetAside() {
  for (auto& request : requests_) {
    if (request->is_stream() && request->frame_search()->rows().empty() &&
        !request->wants_chunk() && request->call.feed->SetAside(woken_, request->serial)) {
      next_due_ = std::min({next_due_, request->cut_at, request->call.deadline});
      aside_reserved_ += request->reserved();
      const uint64_t serial = request->serial;
      aside_.emplace(serial, std::move(request));
    }
  }
  requests_.erase(std::remove(requests_.begin(), requests_.end(), nullptr), requests_.end());
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
  int rows = 0;  // of streams, whose rows the engine does not count
  for (const auto& request : requests_) {
    if (!repeats_) {
      request->takes_part = request->is_stream()
                                ? rows < kMostStreamRows && !request->frame_search()->rows().empty()
                                : request->is_encoded();
      rows += request->is_stream() && request->takes_part ? request->beam_size : 0;
    }
    if (request->takes_part) {
      stepped_.push_back(request.get());
    }
    under_way_.push_back(request.get());
  }
  if (stepped_.empty()) {
    return absl::OkStatus();  // all wait for the encoder
  }
  const Underway::Scope scope(underway, *model_, under_way_, this);
  BW_RETURN_IF_ERROR(FaultPoint("engine.step"));
  return stepper_->RunModel(context, stepped_);
}

void FrameDriver::AdvanceAll(const ops::ExecutionContext& context) {
  if (stepped_.empty()) {
    return;  // the stepper still has the rows of the last step, whose searches may be gone
  }
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
    if (status.ok() && request->is_stream()) {
      request->DropRead();
      status = GoOn(*request);
      if (!status.ok()) {
        TellProgress(*request);
      }
    }
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
  const absl::Time now = SteadyNow();
  TakeBack(now);
  CutSearches(v1::FINISH_REASON_DEADLINE,
              [now](const FrameRequest& request) { return now >= request.cut_at; });
  FailDead(now, observer);
  if (!repeats_) {
    TakeAllNews(context);
    if (encoder_ != nullptr) {
      EncodeChunks(context, observer, underway);
    }
  }
  DropAnswered();
  SetAside();
  repeats_ = repeats_ && std::any_of(requests_.begin(), requests_.end(),
                                     [](const auto& request) { return request->takes_part; });
  absl::Duration selection;
  if (!requests_.empty()) {
    const PhaseScope phase(Phase::kOther);
    const auto start = StepProfile::Clock::now();
    const absl::Status status = RunModel(context, underway);
    if (status.ok()) {
      const PhaseScope search_phase(Phase::kSearch);
      const absl::Time scan = observer == nullptr ? absl::Time() : SteadyNow();
      AdvanceAll(context);
      selection = observer == nullptr ? absl::Duration() : SteadyNow() - scan;
      repeats_ = false;
      DropAnswered();
      // Those who took no part come first in the next one.
      std::stable_partition(requests_.begin(), requests_.end(),
                            [](const auto& request) { return !request->takes_part; });
      SetAside();
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
