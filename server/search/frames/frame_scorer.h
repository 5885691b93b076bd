// FrameScorer: the log-probability of given labels over frames. It sums over all alignments of the
// model's lattice (the forward algorithm: Graves 2012, section 2.4, for transducers; Graves et al.
// 2006, section 4.1, for CTC), and finds the best one, which tells when each label stands. `Score`
// is it; a search's answers are scored so when their full sums are asked for.
//
// The lattices are those that searches run over, so that a search whose beam holds everything finds
// the same sums: up to S labels a frame (FrameOptions::max_symbols_per_frame; the S-th needs no
// blank), or any number, and a token-and-duration alignment ends where it reaches the last frame or
// passes it. With any number, a transducer's sum is that of Graves 2012 and of RNN-T losses.
#ifndef BEAMWRIGHT_SERVER_SEARCH_FRAMES_FRAME_SCORER_H_
#define BEAMWRIGHT_SERVER_SEARCH_FRAMES_FRAME_SCORER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/search/frames/frame_hypothesis.h"
#include "server/search/frames/frame_options.h"

namespace beamwright::search {

// Of given labels over all frames.
struct FrameScore {
  double full_log_prob = 0;      // over all alignments; -infinity where there is none
  double best_log_prob = 0;      // of the best alignment
  std::vector<LabelTime> times;  // on the best alignment; empty where there is none
};

// Movable. One thread at a time. Bytes grow with labels x (durations + 1), and 12 for each frame
// and label, for the best alignment.
class CtcScorer {
 public:
  // Of the options kind, vocabulary, blank, temperature and blank penalty count. InvalidArgument:
  // a label is outside the vocabulary, or the blank.
  static absl::StatusOr<CtcScorer> Create(const FrameOptions& options, std::vector<int32_t> labels);

  // The next frame, as for CtcSearch::Advance.
  absl::Status Advance(absl::Span<const float> log_probs);
  // Of the frames so far.
  FrameScore Result() const;

 private:
  CtcScorer(const FrameOptions& options, std::vector<int32_t> labels);
  void Step(absl::Span<const float> log_probs);

  FrameOptions options_;
  std::vector<int32_t> labels_;
  // States: blank, label 0, blank, label 1, ... blank; logarithms of what ends in each.
  std::vector<double> sums_;
  std::vector<double> next_sums_;
  std::vector<double> bests_;
  std::vector<double> next_bests_;
  // [frames, states]: states back that the best path came from (0, 1 or 2); the label's
  // log-probability in each frame.
  std::vector<uint8_t> back_;
  std::vector<float> log_probs_;
  std::vector<double> row_;
  int64_t num_frames_ = 0;
};

// What a joiner's row says of the label to come: of frame t beside the first u labels.
struct ScoredRow {
  float blank_log_prob = 0;
  float label_log_prob = 0;  // of label u; of the last row, behind all labels, not read
  absl::Span<const float> duration_log_probs;  // of options.durations
};

// Movable. One thread at a time.
class TransducerScorer {
 public:
  // As CtcScorer::Create; durations and max_symbols_per_frame count as well.
  // alignment_length_synchronous: any number of labels in a frame.
  static absl::StatusOr<TransducerScorer> Create(const FrameOptions& options,
                                                 std::vector<int32_t> labels);

  // The next frame beside 0, 1, ... labels.size() labels: so many rows and one.
  absl::Status Advance(absl::Span<const ScoredRow> rows);
  FrameScore Result() const;

 private:
  TransducerScorer(const FrameOptions& options, std::vector<int32_t> labels);

  FrameOptions options_;
  std::vector<int32_t> labels_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_SERVER_SEARCH_FRAMES_FRAME_SCORER_H_
