// RequestDriver: what drivers have in common, whatever their searches advance by: the requests that
// run, and how they join, are cut at their deadlines, fail, are answered while a step hangs, repeat
// a step that was interrupted, and leave. A driver adds two things: how its model's graphs run for
// them, and how their searches advance by the results. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_REQUEST_DRIVER_H_
#define BEAMWRIGHT_ENGINE_REQUEST_REQUEST_DRIVER_H_

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine/request/engine_options.h"
#include "engine/request/request.h"
#include "ops/base/steady_time.h"
#include "ops/base/step_profile.h"
#include "ops/graph/operator.h"

namespace beamwright::engine {

// Own: the model's kind of Request. It has, in addition to a Request's members:
//   bool Cut(v1::FinishReason)  ends the search with what it has; false without a running search
//   void Answer()               gives the answer of a search that has ended
//   void ReportProgress()       calls call.progress, if there is one and there is news
//   int steps_made() const      steps in which it took part; exact up to 1
template <typename Own>
class RequestDriver : public Driver {
 public:
  void Join(std::unique_ptr<Request> request) override {
    // Requests of a model are of its kind.
    requests_.emplace_back(static_cast<Own*>(request.release()));
  }
  void AnswerMeanwhile(absl::Time now, const absl::Status& end, EngineObserver* observer) override {
    for (const auto& request : requests_) {
      AnswerOneMeanwhile(*request, now, end, observer);
    }
  }
  void FailAll(const absl::Status& why) override {
    has_failed_ = true;
    DropAnswered();  // and the places of those that a step, which was broken off, has moved out
    for (const auto& request : requests_) {
      request->Fail(why);
    }
    DropAnswered();
  }
  void End(const absl::Status& why) override {
    CutSearches(v1::FINISH_REASON_SHUTDOWN, [](const Own& request) { return request.may_be_cut; });
    for (const auto& request : requests_) {
      request->Fail(why);
    }
    DropAnswered();
  }
  Reserved reserved() const override { return ReservedFor(requests_); }
  int64_t most_bytes() const override { return most_bytes_; }
  int64_t num_done() const override { return num_done_; }
  bool has_failed() const override { return has_failed_; }
  std::shared_ptr<const DecodeModel> Suspend() override { return std::move(model_); }
  void Resume(std::shared_ptr<const DecodeModel> model) override { model_ = std::move(model); }

 protected:
  using Requests = std::vector<std::unique_ptr<Own>>;

  explicit RequestDriver(std::shared_ptr<const DecodeModel> model) : model_(std::move(model)) {}

  const DecodeModel& model() const { return *model_; }

  // The beginning of a step: notes how many bytes are reserved. The time of the step.
  absl::Time BeginStep() {
    most_bytes_ = std::max(most_bytes_, reserved().bytes);
    return SteadyNow();
  }
  // Searches whose time is over answer with what they have; cancelled and expired requests fail.
  void AnswerDead(absl::Time now, EngineObserver* observer) {
    CutSearches(v1::FINISH_REASON_DEADLINE,
                [now](const Own& request) { return now >= request.cut_at; });
    for (const auto& request : requests_) {
      const absl::Status status =
          request->is_answered ? absl::OkStatus() : request->CheckAlive(now);
      if (!status.ok()) {
        ReportCancelled(*request, status, now, observer);
        request->Fail(status);
      }
    }
    looked_ = now;
  }
  // Answered requests leave.
  void DropAnswered() {
    const auto leaves = [this](const std::unique_ptr<Own>& request) {
      if (request != nullptr && request->is_answered) {
        Leave(*request);
      }
      return request == nullptr || request->is_answered;
    };
    requests_.erase(std::remove_if(requests_.begin(), requests_.end(), leaves), requests_.end());
  }
  // The step itself, unless there is no request. `run` runs the model's graphs and returns a
  // status; `advance` advances the searches by the results, and returns how long the selection of
  // candidates took. If the run is interrupted, is_repeated() until the next step. A run that fails
  // otherwise fails all requests.
  template <typename Run, typename Advance>
  absl::Duration RunStep(const ops::ExecutionContext& context, const Underway* underway,
                         const Run& run, const Advance& advance) {
    is_repeated_ =
        is_repeated_ && std::any_of(requests_.begin(), requests_.end(),
                                    [](const auto& request) { return request->takes_part; });
    if (requests_.empty()) {
      return absl::ZeroDuration();
    }
    const PhaseScope phase(context.profile, Phase::kOther);
    const auto start = StepProfile::Clock::now();
    absl::Duration selection;
    if (const absl::Status status = run(); status.ok()) {
      const PhaseScope search_phase(context.profile, Phase::kSearch);
      selection = advance();
      is_repeated_ = false;
    } else if (IsForOthers(status, underway)) {
      is_repeated_ = true;
    } else {
      FailAll(absl::InternalError(status.message()));
    }
    if (context.profile != nullptr) {
      context.profile->AddStep(StepProfile::Clock::now() - start);
    }
    return selection;
  }
  // Whether the last step was interrupted: requests that took part in it and remain make it again,
  // while the others wait.
  bool is_repeated() const { return is_repeated_; }

  // For a run of the model's graphs: its requests, which others may answer meanwhile.
  Underway::Scope MakeScope(Underway* underway) {
    under_way_.assign(requests_.size(), nullptr);
    std::transform(requests_.begin(), requests_.end(), under_way_.begin(),
                   [](const auto& request) { return request.get(); });
    return Underway::Scope(underway, *model_, under_way_, this);
  }

  // A request whose search came to its end.
  void CountDone() { ++num_done_; }
  // As AnswerMeanwhile, for one request.
  void AnswerOneMeanwhile(Own& request, absl::Time now, const absl::Status& end,
                          EngineObserver* observer) {
    if (request.is_answered) {
      return;
    }
    const bool is_late = now >= request.cut_at;
    if ((is_late || (!end.ok() && request.may_be_cut)) &&
        CutOne(request, is_late ? v1::FINISH_REASON_DEADLINE : v1::FINISH_REASON_SHUTDOWN)) {
      return;
    }
    const absl::Status status = end.ok() ? request.CheckAlive(now) : end;
    if (!status.ok()) {
      if (end.ok()) {
        ReportCancelled(request, status, now, observer);
      }
      request.Fail(status);
    }
  }

  Requests requests_;

 private:
  // A request that has its answer is about to be destroyed.
  virtual void Leave(Own& /*request*/) {}

  template <typename Which>
  void CutSearches(v1::FinishReason reason, Which which) {
    for (const auto& request : requests_) {
      if (which(*request) && !request->is_answered) {
        CutOne(*request, reason);
      }
    }
  }
  // True: the request has its answer. False: there is nothing to cut, or its caller has gone.
  bool CutOne(Own& request, v1::FinishReason reason) {
    try {
      if (request.call.IsCancelled() || !request.Cut(reason)) {
        return false;
      }
      request.ReportProgress();
      request.Answer();
    } catch (const std::bad_alloc&) {
      request.Fail(status::OutOfMemory());
    }
    return true;
  }
  void ReportCancelled(const Own& request, const absl::Status& status, absl::Time now,
                       EngineObserver* observer) const {
    if (observer == nullptr || !absl::IsCancelled(status)) {
      return;
    }
    const absl::Time when = request.call.cancelled->when(now);
    const int steps = request.steps_made() == 0 ? 0 : when >= looked_ ? 1 : 2;
    observer->OnCancelled(*model_, steps, std::max(now - when, absl::ZeroDuration()));
  }
  // Whether a run failed only because it was interrupted, for requests that have left, and others
  // remain.
  bool IsForOthers(const absl::Status& status, const Underway* underway) const {
    return absl::IsCancelled(status) && underway != nullptr && underway->was_interrupted() &&
           std::any_of(requests_.begin(), requests_.end(),
                       [](const auto& request) { return !request->is_answered; });
  }

  std::shared_ptr<const DecodeModel> model_;
  int64_t most_bytes_ = 0;
  int64_t num_done_ = 0;
  bool has_failed_ = false;
  bool is_repeated_ = false;
  absl::Time looked_ = absl::InfinitePast();  // when the last step looked for dead requests
  std::vector<Request*> under_way_;           // all of them, for Underway
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_REQUEST_DRIVER_H_
