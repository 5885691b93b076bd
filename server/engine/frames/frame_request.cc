#include "server/engine/frames/frame_request.h"

#include "ops/base/status.h"
#include "server/status/fault.h"

namespace beamwright::engine {

absl::Status FrameRequest::EnterPhase() {
  if (is_scoring) {
    is_done = is_scored();
    return absl::OkStatus();
  }
  if (!frame_search()->done()) {
    return absl::OkStatus();
  }
  found = frame_search()->Results();
  if (!wants_full_sum || found.empty()) {
    is_done = true;
    return absl::OkStatus();
  }
  for (const search::FrameHypothesis& hypothesis : found) {
    targets.push_back(hypothesis.labels);
  }
  is_scoring = true;
  return StartScoring();
}

bool FrameRequest::Cut(v1::FinishReason why) {
  if (frame_search() == nullptr || is_answered || is_done) {
    return false;
  }
  if (!is_scoring) {
    found = frame_search()->Results();
    reason = why;
  }
  is_done = true;
  return true;
}

absl::Status NoFrames(const PreparedSource& source) {
  return status::InvalidField("source", "is too short: the encoder makes no frame of ",
                              source.source_length, " positions");
}

}  // namespace beamwright::engine
