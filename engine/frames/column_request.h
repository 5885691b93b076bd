// ColumnRequest: a source whose frames are columns of an encoder's output. Everything that its
// search reads is there when it starts, so that its steps run no graph. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_

#include <cstdint>
#include <vector>

#include "engine/frames/frame_request.h"

namespace beamwright::engine {

// Frames of a search's step. One alone would cost as much to schedule as to search; many would keep
// requests of other models waiting.
inline constexpr int64_t kColumnFramesPerStep = 16;

struct ColumnRequest : FrameRequest {
  std::vector<float> log_probs;  // [frames that are kept, columns]

  absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                     int64_t row) override;
  absl::Status StartAlone(const ops::ExecutionContext& context) override;
  absl::Status TakeWhole(const ops::ExecutionContext& context, const ops::Tensor& whole) override;
  absl::Status TakePiece(const ops::ExecutionContext& context, const ops::Tensor& piece) override;
  void DropFrames(int64_t count) override;

  // A step of the search, or of the forward algorithm.
  virtual absl::Status Advance() = 0;

 protected:
  // Fills log_probs and num_frames from all frames of the source.
  virtual absl::Status TakeFrames(const ops::Tensor& output) = 0;
  absl::Span<const float> frame(int64_t number) const;

 private:
  const char* name() const;  // the field of model.textproto, for errors
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_
