// One step of a model that is searched by frames (Step), for all requests of the driver:
//
// 1. TakeBack: streams that were set aside and have news, or whose time is over, come back.
// 2. AnswerDead: cancelled and expired requests leave.
// 3. TakeAllNews: frames that arrived for streams are appended (TakeNews), or go to the stream's
//    chunks where the encoder reads chunk by chunk. Proceed lets the search go on: GoOn announces
//    further frames, and ends segments.
// 4. EncodeChunks: the encoder runs over the next chunk of streams that have one, as many together
//    as fit, in turns by number, so that no stream waits for ever. If the run fails each chunk is
//    run alone, to find which source made it fail.
// 5. SetAside: a stream that has read all its frames leaves `requests_` until there is news. It
//    costs nothing meanwhile.
// 6. RunModel: the joiner, or the CTC rows, for the frames that the searches need next; at most
//    about kMostStreamRows rows of streams, and streams that had no part come first in the next
//    step.
// 7. AdvanceAll: searches take the scores; segments, progress and answers go to the callers.
//
// A step that was interrupted is repeated (is_repeated) with the same requests, without those that
// have gone, and takes no news before: so no frame is lost or seen twice.
#include "engine/frames/frame_driver.h"

#include <algorithm>

#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

// About this many rows of streams run in a step; the rows of other streams wait for the next.
constexpr int kMostStreamRows = 1024;

// A stream whose search has this many unread frames is not read further.
constexpr int64_t kMostUnread = 256;

absl::Status NoFrames() { return status::InvalidField("source", "has no frames"); }

}  // namespace

void FrameDriver::Join(std::unique_ptr<Request> request) {
  RequestDriver::Join(std::move(request));
  requests_.back()->serial = ++num_joined_;
}

Reserved FrameDriver::reserved() const {
  Reserved all = RequestDriver::reserved();
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
    request.call.feed->SetUnread(0);
    request.is_complete = request.is_complete || news.is_complete;
    return request.is_complete && request.num_frames == 0 ? NoFrames() : absl::OkStatus();
  }
  for (ops::Tensor& piece : news.pieces) {
    request.chunks->Add(std::move(piece));
  }
  request.call.feed->SetUnread(request.chunks->num_unread_bytes());
  if (news.is_complete) {
    request.chunks->Finish();
    request.is_complete = request.chunks->is_exhausted();
  }
  return news.is_complete && request.chunks->is_empty() ? NoFrames() : absl::OkStatus();
}

void FrameDriver::Proceed(FrameRequest& request, const absl::Status& status) {
  const absl::Status gone_on = status.ok() ? GoOn(request) : status;
  if (!request.ended.empty()) {
    request.ReportProgress();
  }
  if (!gone_on.ok()) {
    request.Fail(gone_on);
  } else if (request.is_done) {
    CountDone();
    request.Answer();
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

absl::Status FrameDriver::RunModel(const ops::ExecutionContext& context, Underway* underway) {
  stepped_.clear();
  int rows = 0;  // of streams, whose rows the engine does not count
  for (const auto& request : requests_) {
    if (!is_repeated()) {
      request->takes_part = request->is_stream()
                                ? rows < kMostStreamRows && !request->frame_search()->rows().empty()
                                : request->is_encoded();
      rows += request->is_stream() && request->takes_part ? request->beam_size : 0;
    }
    if (request->takes_part) {
      stepped_.push_back(request.get());
    }
  }
  if (stepped_.empty()) {
    return absl::OkStatus();  // every request waits for the encoder
  }
  const Underway::Scope scope = MakeScope(underway);
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
        request->ReportProgress();
      }
    }
    if (!status.ok()) {
      // A score that is not a log-probability is the model's fault, not the caller's.
      request->Fail(absl::IsInvalidArgument(status) ? absl::InternalError(status.message())
                                                    : status);
      continue;
    }
    request->ReportProgress();
    if (request->is_done) {
      CountDone();
      request->Answer();
    }
  }
}

absl::Status FrameDriver::RunEncoder(const ops::ExecutionContext& context,
                                     absl::Span<FrameRequest* const> requests, Underway* underway) {
  for (const auto& request : requests_) {
    request->takes_part = false;
  }
  for (FrameRequest* const request : requests) {
    request->takes_part = true;
  }
  const Underway::Scope scope = MakeScope(underway);
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
    if (request.is_stream()) {
      request.call.feed->SetUnread(request.chunks->num_unread_bytes());
    }
    absl::Status status = frames.ok() ? request.TakeChunk(context, *frames) : frames.status();
    if (!status.ok()) {
      // A failure of the encoder is the model's fault, not the caller's.
      request.Fail(absl::InternalError(status.message()));
    } else if (request.is_stream()) {
      Proceed(request, status);
    }
  }
}

bool FrameDriver::HasFramesToSearch() const {
  return std::any_of(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->is_stream() && !request->is_answered &&
           !request->frame_search()->rows().empty();
  });
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
  // In turns: streams with numbers behind the last encoded one come first (unsigned wrap-around).
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
      observer->OnEncode(model(), count, count * model().parts().encoder()->streaming->chunk,
                         SteadyNow() - begin);
    }
    TakeChunks(context, encoded_);
    return;
  }
  if (absl::IsCancelled(status) && underway != nullptr && underway->was_interrupted()) {
    return;  // the next step repeats it without the answered requests
  }
  // One source may have made all of them fail: each is run alone.
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

absl::Duration FrameDriver::Step(const ops::ExecutionContext& context, EngineObserver* observer,
                                 Underway* underway) {
  const absl::Time now = BeginStep();
  TakeBack(now);
  AnswerDead(now, observer);
  if (!is_repeated()) {
    TakeAllNews(context);
    if (encoder_ != nullptr && !HasFramesToSearch()) {
      EncodeChunks(context, observer, underway);
    }
  }
  DropAnswered();
  SetAside();
  return RunStep(
      context, underway, [&] { return RunModel(context, underway); },
      [&] {
        const absl::Time begin = observer == nullptr ? absl::Time() : SteadyNow();
        AdvanceAll(context);
        const absl::Duration took = observer == nullptr ? absl::Duration() : SteadyNow() - begin;
        DropAnswered();
        // Requests that took no part come first in the next step.
        std::stable_partition(requests_.begin(), requests_.end(),
                              [](const auto& request) { return !request->takes_part; });
        SetAside();
        return took;
      });
}

void FrameDriver::AnswerMeanwhile(absl::Time now, const absl::Status& end,
                                  EngineObserver* observer) {
  RequestDriver::AnswerMeanwhile(now, end, observer);
  for (const auto& [number, request] : aside_) {
    AnswerOneMeanwhile(*request, now, end, observer);
    answered_aside_ = answered_aside_ || request->is_answered;
  }
}

void FrameDriver::End(const absl::Status& why) {
  TakeAllBack();
  RequestDriver::End(why);
}

void FrameDriver::FailAll(const absl::Status& why) {
  TakeAllBack();
  RequestDriver::FailAll(why);
}

}  // namespace beamwright::engine
