// Requests of searches by frames, by what the model is. ColumnRequest: a source whose frames are
// columns of an encoder's output; everything that its search reads is there when it starts, so that
// its steps run no graph. TransducerRequest: a source whose frames a joiner reads. Private to
// engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_KINDS_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_KINDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/frames/frame_request.h"
#include "engine/search/frames/ctc_search.h"
#include "engine/search/frames/frame_score.h"
#include "engine/search/frames/tag_search.h"
#include "engine/search/frames/transducer_search.h"

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

// TransducerRequest: a source whose frames a transducer's joiner reads. What the joiner computes of
// the frames alone is there when it starts; what it reads of the predictor lies in the slots of a
// pool, which the stepper keeps (transducer_stepper.h).

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

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_REQUEST_KINDS_H_
