// What all kinds of requests share: the times of their life (Accept), whether they may be cut
// shortly before the deadline so that the answer still arrives (MayBeCut), and whether they must
// end now since the caller cancelled or the deadline passed (CheckAlive).
//
// Then the drivers of models: those that have nothing to do are parked with their model
// (ParkedDrivers).
#include "engine/request/request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/decode_model.h"
#include "engine/status/fault.h"
#include "ops/base/check.h"
#include "ops/base/steady_time.h"

namespace beamwright::engine {
namespace {

// How long before its deadline a search is cut that has `time` for all.
absl::Duration CutMargin(absl::Duration time) {
  return std::clamp(time / 10, absl::Milliseconds(5), absl::Milliseconds(100));
}

}  // namespace

void Request::Accept(const CallOptions& caller) {
  accepted = SteadyNow();
  started = absl::InfinitePast();
  call = caller;
  if (call.timeline != nullptr) {
    call.timeline->accepted = accepted;
  }
}

void Request::MayBeCut() {
  may_be_cut = true;
  if (call.deadline != absl::InfiniteFuture()) {
    cut_at = call.deadline - CutMargin(call.deadline - accepted);
  }
}

absl::Status TooLarge(const char* unit, int64_t asked, int64_t budget, const std::string& lower) {
  return status::WithReason(
      absl::ResourceExhaustedError(absl::StrCat("the request needs ", asked, " ", unit,
                                                "; the server has ", budget, "; lower ", lower)),
      status::reason::kTooLarge,
      {{absl::StrCat("needed_", unit), absl::StrCat(asked)},
       {absl::StrCat("allowed_", unit), absl::StrCat(budget)}});
}

absl::Status Request::CheckAlive(absl::Time now) const {
  if (call.IsCancelled()) {
    return call.cancelled->Outcome(call.deadline, now);
  }
  if (now > call.deadline) {
    return absl::DeadlineExceededError(started == absl::InfinitePast()
                                           ? "deadline passed while the request was waiting"
                                           : "deadline passed between two steps");
  }
  return absl::OkStatus();
}

int Request::CountSteps(const v1::Decoded& answer) const {
  int steps = 1;
  for (const v1::Hypothesis& hypothesis : answer.hypotheses()) {
    steps = std::max(steps, hypothesis.tokens_size());
  }
  return steps;
}

// Drivers that wait for the next request of their model. A driver has buffers that grew with
// earlier requests; when it has no request left it is parked with the model (Park), and the next
// worker that needs one takes it (Take). A driver that failed or holds too much memory is dropped
// instead.

absl::StatusOr<std::unique_ptr<Request>> SearchKind::MakeStreamRequest(
    const EngineOptions& /*limits*/, std::shared_ptr<const DecodeModel> /*model*/,
    const ResolvedOptions& /*options*/, const CallOptions& /*call*/) const {
  return status::InvalidField("model",
                              "decodes token by token, with the whole source before it; "
                              "models that are searched by frames take a source in pieces");
}

ParkedDrivers::ParkedDrivers() = default;
ParkedDrivers::~ParkedDrivers() = default;

std::unique_ptr<Driver> ParkedDrivers::Take(std::shared_ptr<const DecodeModel> model) {
  ParkedDrivers& parked = model->parked_drivers();
  std::unique_ptr<Driver> driver;
  {
    absl::MutexLock lock(&parked.mutex_);
    if (parked.drivers_.empty()) {
      return nullptr;
    }
    driver = std::move(parked.drivers_.back());
    parked.drivers_.pop_back();
  }
  driver->Resume(std::move(model));
  return driver;
}

void ParkedDrivers::Park(std::unique_ptr<Driver> driver) {
  BW_DCHECK(driver->idle());
  if (driver->has_failed() || driver->most_bytes() > kMostParkedBytes) {
    return;
  }
  // Perhaps the last who held it: then the driver goes with it at the end of this function.
  const std::shared_ptr<const DecodeModel> model = driver->Suspend();
  ParkedDrivers& parked = model->parked_drivers();
  absl::MutexLock lock(&parked.mutex_);
  parked.drivers_.push_back(std::move(driver));
}

}  // namespace beamwright::engine
