// CtcRequest: a source whose frames are columns of a CTC output. Everything that its search reads
// is there when it starts, so that its steps run no graph. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_

#include <optional>
#include <vector>

#include "engine/frames/frame_request.h"
#include "engine/search/frames/ctc_scorer.h"
#include "engine/search/frames/ctc_search.h"

namespace beamwright::engine {

// Frames of a search's step. One alone would cost as much to schedule as to search; many would keep
// requests of other models waiting.
inline constexpr int64_t kCtcFramesPerStep = 16;

struct CtcRequest : FrameRequest {
  std::vector<float> log_probs;  // [frames that are kept, columns]
  std::optional<search::CtcSearch> search;
  std::vector<search::CtcScorer> scorers;      // by target
  int64_t next_scored = 0;                     // frame that they read next
  std::vector<const search::FusedRow*> fused;  // of a frame, by prefix; kept for its memory

  absl::Status Start(const ops::ExecutionContext& context, const EncodedSources& encoded,
                     int64_t row) override;
  absl::Status StartAlone(const ops::ExecutionContext& context) override;
  absl::Status TakeWhole(const ops::ExecutionContext& context, const ops::Tensor& whole) override;
  absl::Status TakePiece(const ops::ExecutionContext& context, const ops::Tensor& piece) override;
  void DropFrames(int64_t count) override;
  void StartSearch() override { search.emplace(plan); }
  search::FrameSearch* frame_search() override { return search.has_value() ? &*search : nullptr; }
  absl::Status StartScoring() override;
  bool is_scored() const override { return next_scored == num_frames; }
  std::vector<search::FrameScore> Scores() const override;

  // Of a search. A language model reads the labels of each before the next.
  int64_t frames_per_step() const { return row_scorers.empty() ? kCtcFramesPerStep : 1; }
  // Reads frames: of a search a few, of scorers as many as cost as much.
  absl::Status Advance();

 private:
  absl::Status TakeFrames(const ops::Tensor& output);
  absl::Span<const float> frame(int64_t number) const;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_
