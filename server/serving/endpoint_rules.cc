#include "server/serving/endpoint_rules.h"

#include <algorithm>
#include <cstdint>

#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

// Rules where a request says nothing (recognize.proto), ms.
constexpr int kSilenceMs = 2400;
constexpr int kPauseMs = 1200;
constexpr int kMaxSegmentMs = 20000;

}  // namespace

bool TakesEndpoint(const engine::DecodeModel& model) {
  return model.config().frame_ms() > 0 && !model.reads_whole_source();
}

absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model) {
  status::Faults faults;
  beamwright::bundle::CheckRules(endpoint, "endpoint", faults);
  const double frame_ms = model.config().frame_ms();
  if (frame_ms <= 0) {
    faults.Add("endpoint", "needs a model with a known duration of a frame (frame_ms)");
  }
  if (model.reads_whole_source()) {
    faults.Add("endpoint", "the model's encoder reads the whole source, which is one segment");
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  const auto frames = [frame_ms](int ms) {
    return std::max<int64_t>(static_cast<int64_t>(ms / frame_ms), 1);
  };
  std::vector<search::EndpointRule> rules;
  const int silence = endpoint.has_silence_ms() ? endpoint.silence_ms() : kSilenceMs;
  const int pause = endpoint.has_pause_ms() ? endpoint.pause_ms() : kPauseMs;
  const int most = endpoint.has_max_segment_ms() ? endpoint.max_segment_ms() : kMaxSegmentMs;
  if (silence > 0) {
    rules.push_back({false, frames(silence), 0});
  }
  if (pause > 0) {
    rules.push_back({true, frames(pause), 0});
  }
  if (most > 0) {
    rules.push_back({false, 0, frames(most)});
  }
  return rules;
}

}  // namespace beamwright::serving
