#include "server/engine/request/request.h"

#include <algorithm>

namespace beamwright::engine {

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
