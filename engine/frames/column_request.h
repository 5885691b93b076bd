// ColumnRequest: a source whose frames are columns of an encoder's output. Everything that its
// search reads is there when it starts, so that its steps run no graph. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/frames/frame_request.h"
#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/frame_score.h"
#include "engine/search/frames/tag_search.h"

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

// CtcRequest: a source whose frames are columns of a CTC output.

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

// TagRequest: a source whose positions get one label each.

struct TagRequest : ColumnRequest {
  std::optional<search::TagSearch> search;
  std::optional<search::TagLattice> lattice;  // where targets are given

  void StartSearch() override { search.emplace(plan, transitions()); }
  search::FrameSearch* frame_search() override { return search.has_value() ? &*search : nullptr; }
  absl::Status StartScoring() override;
  bool is_scored() const override { return lattice->is_ready(); }
  std::vector<search::FrameScore> Scores() const override;
  absl::Status Advance() override;

 private:
  // Positions beyond those of an unpadded source are cut off.
  absl::Status TakeFrames(const ops::Tensor& output) override;
  const search::TagTransitions* transitions() const;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_COLUMN_REQUEST_H_
