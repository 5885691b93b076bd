// The beam driver: replies and progress callbacks.
#include <algorithm>
#include <new>
#include <utility>

#include "engine/beam/beam_driver.h"
#include "engine/beam/finalise.h"
#include "engine/beam/reply.h"
#include "engine/request/engine_options.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"
#include "ops/kernels/parallel.h"

namespace beamwright::engine {
namespace {

// Some microseconds, as ops/kernels/parallel.h counts them.
constexpr int64_t kWorkToAnswer = 500'000;

}  // namespace

void BeamDriver::TellCancelled(BeamRequest& request, absl::Time now,
                               EngineObserver& observer) const {
  const absl::Time when = request.call.cancelled->when(now);
  const int steps = request.rows().num_steps() == 0 ? 0 : when >= looked_ ? 1 : 2;
  observer.OnCancelled(*model_, steps, std::max(now - when, absl::ZeroDuration()));
}

void BeamDriver::TellProgress(BeamRequest& request) {
  if (request.call.progress == nullptr || !request.search.has_value()) {
    return;
  }
  Progress progress;
  progress.stable = request.stable.Update(*request.search);
  if (request.first_token == absl::InfinitePast() && !progress.stable.empty()) {
    request.first_token = SteadyNow();
  }
  if (request.call.num_provisional > 0 && !request.search->done()) {
    search::BeamSearch::Head best;
    std::vector<int32_t> tokens = search::BestTokensSoFar(*request.search, best);
    if (!tokens.empty()) {
      progress.provisional.push_back({std::move(tokens), {}, best.key});
    }
  }
  const search::SearchOptions& options = request.search->options();
  progress.stop_strings = options.stop_strings;
  progress.prefix_length = options.constraints.prefix.size();
  if (!progress.stable.empty() || !progress.provisional.empty()) {
    request.call.progress(std::move(progress));
  }
}

void BeamDriver::Finish(const ops::ExecutionContext& context, const Requests& finished) {
  std::vector<BeamRequest*> views;
  for (const auto& request : finished) {
    views.push_back(request.get());
  }
  Finish(context, views);
}

void BeamDriver::Finish(const ops::ExecutionContext& context,
                        absl::Span<BeamRequest* const> finished) {
  if (finished.empty()) {
    return;
  }
  FaultPoint("engine.reply").IgnoreError();
  std::vector<const search::BeamSearch*> searches;
  std::vector<BeamRequest*> decoded;
  for (BeamRequest* const request : finished) {
    if (request->call.timeline != nullptr) {
      request->call.timeline->searched = SteadyNow();
    }
    if (request->scorer.has_value()) {
      v1::Scored reply = MakeScored(*request);
      if (request->call.timeline != nullptr) {
        request->call.timeline->written = SteadyNow();
      }
      request->Give(std::move(reply));
    } else {
      searches.push_back(&*request->search);
      decoded.push_back(request);
    }
  }
  if (decoded.empty()) {
    return;
  }
  auto lists = Finalise(context, searches);
  std::vector<v1::Decoded> replies(decoded.size());
  const auto count = static_cast<int64_t>(decoded.size());
  ops::ParallelFor(context.num_threads, count, count * kWorkToAnswer, [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    if (lists[i].ok()) {
      replies[i] = MakeReply(*decoded[i], *std::move(lists[i]));
      if (decoded[i]->call.timeline != nullptr) {
        decoded[i]->call.timeline->written = SteadyNow();
      }
    }
  });
  for (size_t i = 0; i < decoded.size(); ++i) {
    if (lists[i].ok()) {
      decoded[i]->Give(std::move(replies[i]));
    } else {
      decoded[i]->Fail(lists[i].status());
    }
  }
}

void BeamDriver::AnswerMeanwhile(absl::Time now, const absl::Status& end,
                                 EngineObserver* observer) {
  for (const auto& request : requests_) {
    if (request->is_answered) {
      continue;
    }
    const bool at_deadline = now >= request->cut_at;
    try {
      if ((at_deadline || (!end.ok() && request->may_be_cut)) && !request->call.IsCancelled() &&
          request->search.has_value() &&
          request->search->Cut(at_deadline ? search::FinishReason::kDeadline
                                           : search::FinishReason::kShutdown)) {
        TellProgress(*request);
        BeamRequest* const cut = request.get();
        Finish(ops::ExecutionContext(), absl::MakeConstSpan(&cut, 1));
        continue;
      }
    } catch (const std::bad_alloc&) {
      request->Fail(status::OutOfMemory());
      continue;
    }
    const absl::Status status = end.ok() ? request->CheckAlive(now) : end;
    if (observer != nullptr && end.ok() && absl::IsCancelled(status)) {
      TellCancelled(*request, now, *observer);
    }
    if (!status.ok()) {
      request->Fail(status);
    }
  }
}

void BeamDriver::FailAll(const absl::Status& why) {
  has_failed_ = true;
  Requests failed = std::move(requests_);
  requests_.clear();
  for (const auto& request : failed) {
    if (request != nullptr) {  // a step that was broken off has taken it
      request->Fail(why);
    }
  }
  for (StepRunner& runner : runners_) {
    runner.Clear();
  }
}

}  // namespace beamwright::engine
