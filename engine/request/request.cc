// What all kinds of requests share: the times of their life (Accept), whether they may be cut
// shortly before the deadline so that the answer still arrives (MayBeCut), and whether they must
// end now since the caller cancelled or the deadline passed (CheckAlive).
#include "engine/request/request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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

}  // namespace beamwright::engine
