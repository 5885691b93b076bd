// ChunkEncoder: runs the encoder of a model over the next chunks of many sources together, where it
// reads them chunk by chunk. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_CHUNK_ENCODER_H_
#define BEAMWRIGHT_ENGINE_FRAMES_CHUNK_ENCODER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/frames/frame_request.h"

namespace beamwright::engine {

// One thread at a time.
class ChunkEncoder {
 public:
  // `parts`, of the model, must outlive it.
  explicit ChunkEncoder(const DecodeModel::Parts& parts) : parts_(parts) {}

  // How many of `waiting` sources a run takes: as many as are read in some 50 ms, for searches wait
  // meanwhile, but at least 16. Bits do not depend on it.
  size_t NumTogether(size_t waiting) const;

  // Reads the next chunk of each, and changes nothing of them, for others may answer them
  // meanwhile. Where it is not proven that sources stay apart, each is read by itself. Not OK: the
  // graph failed, or was interrupted.
  absl::Status Run(const ops::ExecutionContext& context, absl::Span<FrameRequest* const> requests);
  // After a Run: gives source number `i` of it the states and returns its frames, [1, frames,
  // width].
  absl::StatusOr<ops::Tensor> Advance(size_t i, ChunkedSource& source) const;

 private:
  absl::Status RunSome(const ops::ExecutionContext& context,
                       absl::Span<FrameRequest* const> requests, std::vector<ops::Tensor>& outputs);

  const DecodeModel::Parts& parts_;
  ChunkWorkspace workspace_;
  // Of the last run: one entry for all sources, or one for each.
  std::vector<std::vector<ops::Tensor>> outputs_;
  size_t num_sources_ = 0;
  absl::Duration per_source_;  // that it took
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_CHUNK_ENCODER_H_
