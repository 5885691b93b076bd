// ActivityModel: says of each 32 ms of sound how probable speech is, by Silero's
// graph over windows (silero_vad_16k_sequence.onnx): [windows, 576] samples at 16 kHz, of which 64
// are the end of the window before, and two states become [windows] probabilities and new states.
#ifndef BEAMWRIGHT_ENGINE_MODEL_ACTIVITY_H_
#define BEAMWRIGHT_ENGINE_MODEL_ACTIVITY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sound/resampler.h"
#include "ops/loop/model.h"

namespace beamwright::engine {

// Immutable and thread-safe.
class ActivityModel {
 public:
  static constexpr int kSampleRate = 16000;
  static constexpr int kWindow = 512;
  static constexpr int kContext = 64;
  static constexpr double kWindowMs = 32;

  // InvalidArgument: the graph has other inputs or outputs.
  static absl::StatusOr<std::shared_ptr<const ActivityModel>> Create(
      const ops::ExecutionContext& context, ops::Graph graph);

  // states: two, as the run before left them, or empty. input: f32 [windows, kContext + kWindow].
  // Appends a probability for each window.
  absl::Status Run(const ops::ExecutionContext& context, const ops::Tensor& input,
                   std::vector<ops::Tensor>& states, std::vector<float>& probabilities) const;

 private:
  ActivityModel() = default;
  ops::Shape StateShape(int state) const;

  std::unique_ptr<const ops::Model> model_;
  size_t input_ = 0;  // index into its parameters; the others are the states, in the results' order
};

// One source. One thread at a time.
class ActivityStream {
 public:
  ActivityStream(std::shared_ptr<const ActivityModel> model, int sample_rate)
      : model_(std::move(model)),
        resampler_(sample_rate, ActivityModel::kSampleRate),
        samples_(ActivityModel::kContext, 0.0F) {}

  // Samples at full scale 1. Appends the probabilities of windows that are complete with them.
  absl::Status Add(absl::Span<const float> samples, std::vector<float>& probabilities);

 private:
  std::shared_ptr<const ActivityModel> model_;
  sound::Resampler resampler_;
  std::vector<float> samples_;  // not heard yet, after the context
  std::vector<ops::Tensor> states_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_ACTIVITY_H_
