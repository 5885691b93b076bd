#include "server/serving/endpoint_rules.h"

#include <algorithm>
#include <cstdint>

#include "engine/bundle/rules.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

// Rules where a request says nothing (recognize.proto), ms.
constexpr int kSilenceMs = 2400;
constexpr int kPauseMs = 1200;
constexpr int kMaxSegmentMs = 20000;

constexpr int kWindowMs = 30'000;       // of a decoder that fills no sound up to its own length
constexpr int kMostWindowMs = 120'000;  // of an encoder that reads whole sources

bool HasDecoder(const engine::DecodeModel& model) { return model.parts().frames == nullptr; }

}  // namespace

bool CutsSound(const engine::DecodeModel& model) {
  return model.parts().sound != nullptr && (HasDecoder(model) || model.reads_whole_source());
}

bool TakesEndpoint(const engine::DecodeModel& model) {
  // A window costs Whisper as much as 30 s, so that pauses end none by themselves.
  return CutsSound(model) ? !HasDecoder(model) : model.config().frame_ms() > 0;
}

absl::StatusOr<std::vector<search::EndpointRule>> ReadEndpoint(const v1::Endpoint& endpoint,
                                                               const engine::DecodeModel& model,
                                                               bool is_sound) {
  status::Faults faults;
  beamwright::bundle::CheckRules(endpoint, "endpoint", faults);
  const double frame_ms = model.config().frame_ms();
  const bool is_cut = CutsSound(model) && is_sound;
  if (frame_ms <= 0 && !is_cut) {
    faults.Add("endpoint", "needs a model with a known duration of a frame (frame_ms)");
  }
  if (model.reads_whole_source() && !is_cut) {
    faults.Add("endpoint",
               "the model's encoder reads the whole source, of which sound alone is cut");
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  if (is_cut) {
    return std::vector<search::EndpointRule>();
  }
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

SoundWindows::Rules WindowRules(const v1::Endpoint* endpoint, const engine::DecodeModel& model) {
  SoundWindows::Rules rules;
  rules.window_ms = kMostWindowMs;
  if (HasDecoder(model)) {
    const int pad_ms = model.config().sound().pad_ms();
    rules.window_ms = pad_ms > 0 ? pad_ms : kWindowMs;
  }
  if (endpoint != nullptr) {
    rules.pause_ms = endpoint->has_pause_ms() ? endpoint->pause_ms() : kPauseMs;
    const int most = endpoint->has_max_segment_ms() ? endpoint->max_segment_ms() : kMaxSegmentMs;
    rules.window_ms = most > 0 ? std::min(rules.window_ms, most) : rules.window_ms;
  }
  return rules;
}

}  // namespace beamwright::serving
