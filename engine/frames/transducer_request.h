// TransducerRequest: a source whose frames a transducer's joiner reads. What the joiner computes of
// the frames alone is there when it starts; what it reads of the predictor lies in the slots of a
// pool, which the stepper keeps (transducer_stepper.h). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_REQUEST_H_

#include <optional>
#include <vector>

#include "engine/frames/frame_request.h"
#include "engine/search/frames/frame_score.h"
#include "engine/search/frames/transducer_search.h"

namespace beamwright::engine {

struct TransducerRequest : FrameRequest {
  // A target at work: the forward algorithm over it, and the pool's slots behind its first 0, 1,
  // ... labels, of which the predictor has filled this number.
  struct Scored {
    search::TransducerScorer scorer;
    std::vector<int32_t> slots;
    size_t num_predicted = 0;
    int64_t next_frame = 0;
  };

  // [frames that are kept, ...] by what the joiner reads of a frame.
  std::vector<ops::Tensor> frames;
  std::optional<search::TransducerSearch> search;
  std::vector<int32_t> slots;  // by slot of the search that of the pool; -1: none yet
  // What a stateless predictor reads first, behind a segment that was cut: the last tokens. Empty:
  // the model's begin. A recurrent predictor begins anew.
  std::vector<int32_t> last_tokens;
  std::vector<Scored> scored;  // by target
  size_t next_target = 0;      // that is scored next
  // Of a round, for the search and for a scorer; kept for their memory.
  std::vector<search::FrameCandidates> candidates;
  std::vector<search::ScoredRow> scored_rows;

  absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                     int64_t row) override;
  absl::Status StartAlone(const ops::ExecutionContext& context) override;
  absl::Status TakeWhole(const ops::ExecutionContext& context, const ops::Tensor& whole) override;
  absl::Status TakePiece(const ops::ExecutionContext& context, const ops::Tensor& piece) override;
  void DropFrames(int64_t count) override;
  void StartSearch() override;
  search::FrameSearch* frame_search() override { return search.has_value() ? &*search : nullptr; }
  absl::Status StartScoring() override;
  bool is_scored() const override;
  std::vector<search::FrameScore> Scores() const override;

 private:
  // `output`: [frames, width] of this source.
  absl::Status TakeFrames(const ops::ExecutionContext& context, const ops::Tensor& output);
  // What the joiner reads of them.
  absl::StatusOr<std::vector<ops::Tensor>> FramesOfJoiner(const ops::ExecutionContext& context,
                                                          const ops::Tensor& output) const;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_TRANSDUCER_REQUEST_H_
