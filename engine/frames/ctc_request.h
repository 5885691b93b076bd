// CtcRequest: a source whose frames are columns of a CTC output. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_

#include <optional>
#include <vector>

#include "engine/frames/column_request.h"
#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/frame_score.h"

namespace beamwright::engine {

struct CtcRequest : ColumnRequest {
  std::optional<search::CtcSearch> search;
  std::vector<search::CtcScorer> scorers;      // by target
  int64_t next_scored = 0;                     // frame that they read next
  std::vector<const search::FusedRow*> fused;  // of a frame, by prefix; kept for its memory

  void StartSearch() override;
  search::FrameSearch* frame_search() override { return search.has_value() ? &*search : nullptr; }
  absl::Status StartScoring() override;
  bool is_scored() const override { return next_scored == num_frames; }
  std::vector<search::FrameScore> Scores() const override;

  // Of a search. A language model reads the labels of each before the next.
  int64_t frames_per_step() const { return row_scorers.empty() ? kColumnFramesPerStep : 1; }
  // Reads frames: of a search a few, of scorers as many as cost as much.
  absl::Status Advance() override;

 private:
  absl::Status TakeFrames(const ops::Tensor& output) override;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_CTC_REQUEST_H_
