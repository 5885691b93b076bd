// What given labels are worth over frames. Two classes find it: CtcScorer and TransducerScorer.
//
// They sum over all alignments of the model's lattice (the forward algorithm: Graves et al. 2006,
// section 4.1, for CTC; Graves 2012, section 2.4, for transducers), and find the best one, which
// dates each label. `Score` is that; a search's answers are scored so where their full
// sums are asked for. The lattices are those that searches run over, so that a search whose beam
// holds everything finds the same sums.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_search.h"

namespace beamwright::search {

struct FrameScore {
  double full_log_prob = 0;      // over all alignments; -infinity without any
  double best_log_prob = 0;      // of the best alignment
  std::vector<LabelTime> times;  // on the best alignment; empty without one
};

// InvalidArgument naming the label that is outside the vocabulary, or the blank; more labels than
// kMaxLength.
absl::Status CheckScoredLabels(const FrameOptions& options, const std::vector<int32_t>& labels);

// CtcScorer: the log-probability of given labels over the frames of a CTC model.

// Movable. One thread at a time. 6 bytes for each frame and label, for the best alignment.
class CtcScorer {
 public:
  // Of the options vocabulary, blank, temperature and blank penalty count. InvalidArgument as
  // CheckScoredLabels.
  static absl::StatusOr<CtcScorer> Create(const FrameOptions& options, std::vector<int32_t> labels);

  // The next frame, as for CtcSearch::Advance.
  absl::Status Advance(absl::Span<const float> log_probs);
  // Of the frames so far.
  FrameScore Result() const;

 private:
  // States 0 to 2 x labels: blank, label 0, blank, label 1, ... blank.
  struct State {
    double sum;   // of all alignments that end in it
    double best;  // of the best
  };

  CtcScorer(const FrameOptions& options, std::vector<int32_t> labels);
  std::vector<LabelTime> TraceBack(size_t state) const;

  FrameOptions options_;
  std::vector<int32_t> labels_;
  std::vector<State> states_;
  std::vector<State> next_states_;
  std::vector<uint8_t> steps_;    // [frames, states]: by how many states the best path moved on
  std::vector<float> log_probs_;  // [frames, labels]
  int64_t num_frames_ = 0;
};

// TransducerScorer: the log-probability of given labels over a transducer's frames.
//
// Up to S labels a frame (FrameOptions::max_symbols_per_frame; the S-th needs no blank), or any
// number: then a plain transducer's sum is that of Graves 2012 and of RNN-T losses. With durations
// an alignment ends where it reaches the end of the frames or passes it.

// What the joiner says of a frame behind the first u labels.
struct ScoredRow {
  float blank_log_prob = 0;
  float label_log_prob = 0;                    // of label u; behind the last label it is not read
  absl::Span<const float> duration_log_probs;  // of options.durations
};

// Movable. One thread at a time. 16 bytes for each frame and label, for the best alignment.
class TransducerScorer {
 public:
  // Of the options kind, vocabulary, blank, durations, max_symbols_per_frame and blank penalty
  // count; alignment_length_synchronous means any number of labels in a frame. InvalidArgument as
  // CheckScoredLabels.
  static absl::StatusOr<TransducerScorer> Create(const FrameOptions& options,
                                                 std::vector<int32_t> labels);

  // The next frame behind 0, 1, ... all labels: one row more than there are labels. InvalidArgument
  // naming frame and row: a log-probability is NaN or above 0, a wrong number.
  absl::Status Advance(absl::Span<const ScoredRow> rows);
  // Of the frames so far.
  FrameScore Result() const;

 private:
  struct Sums {
    double sum;   // of all alignments
    double best;  // of the best
  };
  // Alignments that are about to read a frame, and how the best one came there: from `frames`
  // frames before, by a label or the blank, there `run` labels after it had come.
  struct Arrival {
    int32_t frames = 0;
    int32_t run = 0;
    float label_log_prob = 0;  // of the label that it came by, and of its duration
    bool by_label = false;
  };
  // Alignments at a frame that have emitted labels there already.
  struct InFrame {
    Sums sums;
    int32_t run;  // labels emitted in this frame; of many, the best alignment's
  };

  TransducerScorer(const FrameOptions& options, std::vector<int32_t> labels);
  absl::Status Check(absl::Span<const ScoredRow> rows) const;
  void ReadRow(size_t place, const ScoredRow& row);
  void EmitLabel(size_t place, const InFrame& from, double log_prob, const ScoredRow& row);
  void Arrive(int frames, size_t place, const InFrame& from, double log_prob, bool by_label);
  void EmitInFrame(const InFrame& from, double log_prob);
  std::vector<LabelTime> TraceBack(int64_t frame) const;

  Sums& arriving(int64_t frame, size_t place) {
    return arriving_[static_cast<size_t>(frame) % num_ahead_ * num_places_ + place];
  }
  const Sums& arriving(int64_t frame, size_t place) const {
    return arriving_[static_cast<size_t>(frame) % num_ahead_ * num_places_ + place];
  }

  FrameOptions options_;
  std::vector<int32_t> labels_;
  size_t num_places_;           // 0 to all labels behind
  size_t num_ahead_;            // frames that alignments may stand at: the longest duration and one
  size_t cap_;                  // labels of a frame at most; 0: any number
  std::vector<Sums> arriving_;  // [num_ahead_, num_places_], a ring by frame
  std::vector<Arrival> arrivals_;   // [frames + num_ahead_, num_places_]
  std::vector<float> in_frame_;     // [frames, labels]: of a label that takes no frame
  std::vector<InFrame> here_;       // at the place under way, by labels emitted in the frame
  std::vector<InFrame> next_here_;  // at the next place
  int64_t num_frames_ = 0;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SCORE_H_
