// FrameSearch: what the searches over frames have in common. The code that runs the model says how
// many frames there are and how the model's rows look; it answers with hypotheses, at any time.
//
//   search.AddFrames(n); ... search.Finish();
//   while (!search.rows().empty()) {
//     // 1. run the predictor (and language models) for label_steps(), if there are any
//     // 2. compute each row: the joiner of rows()[i].frame and the history at rows()[i].slot
//     BW_RETURN_IF_ERROR(search.Advance(rows));
//   }
//
// What depends on labels alone is known by slots. A slot is a small number that stands for one
// label history; label_steps() says how new ones arise from old ones. Slots are freed as histories
// die and used again, but never one that the same label_steps() read: they can be run in any order,
// in place.
//
// Results depend on the options and the rows alone: not on the pieces in which frames were added,
// nor on what ran before.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/base/row_rules.h"

namespace beamwright::search {

// One answer of a search over frames.

// The place of a label on the hypothesis' best path.
struct LabelTime {
  int64_t first_frame = 0;
  // CTC: frames in a row that emit it. Token and duration: what the model said (at its cap of
  // symbols at least 1). Other transducers: 1.
  int32_t duration = 0;
  // What it adds to the best path: CTC: the sum over its frames; token and duration: of token and
  // duration.
  float log_prob = 0;
  friend bool operator==(const LabelTime&, const LabelTime&) = default;
};

struct FrameHypothesis {
  std::vector<int32_t> labels;   // without blanks
  std::vector<LabelTime> times;  // one per label
  double log_prob = 0;           // of the best path (one alignment), blanks included
  // What alignments the search merged add up to, at least log_prob: a lower bound of the
  // log-probability of the labels, which CtcScorer and TransducerScorer find. With Recombine::kMax
  // and kNone: log_prob.
  double merged_log_prob = 0;
  double reward = 0;                // of hotwords
  std::vector<double> scorer_sums;  // of FrameOptions::scorers, then label_scorers; unweighted
  // merged_log_prob + reward + weighted scorers' sums + word_reward x labels, over LengthNorm.
  double score = 0;
  friend bool operator==(const FrameHypothesis&, const FrameHypothesis&) = default;
};

// A row to compute: a frame and a label history.
struct FrameRow {
  int32_t slot = 0;   // of the history
  int64_t frame = 0;  // from 0
  friend bool operator==(const FrameRow&, const FrameRow&) = default;
};

// To be run before the next rows are computed: slot `slot` becomes the history of slot
// `parent_slot`, and then `label`. The first one of a search starts a history: both are -1, and the
// predictor reads what its model begins with.
struct LabelStep {
  int32_t parent_slot = -1;
  int32_t label = -1;
  int32_t slot = 0;
  friend bool operator==(const LabelStep&, const LabelStep&) = default;
};

// One thread at a time.
class FrameSearch {
 public:
  virtual ~FrameSearch() = default;

  // `count` more frames are there, >= 0. Not after Finish.
  virtual void AddFrames(int64_t count) = 0;
  // There will be no more frames than have been added. More than once is once.
  virtual void Finish() = 0;
  // No row is to be computed any more, and no frame will come.
  virtual bool done() const = 0;

  // Rows of the next round, best hypothesis first; none while the search waits for frames, or once
  // done. A search that waits costs nothing. View until the next call that is not const.
  virtual absl::Span<const FrameRow> rows() const = 0;
  // What became of labels since the rows before; view as above. Steps of a search that is done need
  // not be run, nor are there any.
  virtual absl::Span<const LabelStep> label_steps() const = 0;
  // Slots are below it. It grows to at most MaxSlots of the options.
  virtual int num_slots() const = 0;

  // The frame that the next round reads; of several, the earliest. As many frames were read
  // completely.
  virtual int64_t frame() const = 0;

  // Labels with which every answer will begin, whatever the frames to come say: those that all live
  // hypotheses share. Never fewer than before. Appends those behind the first labels.size().
  virtual void AddStableLabels(std::vector<int32_t>& labels) const = 0;
  // Frames behind the last label of the hypothesis that leads now; all frames, if it has none. For
  // endpoint rules.
  virtual int64_t trailing_blanks() const = 0;
  // Labels of the hypothesis that leads now.
  virtual int num_labels() const = 0;

  // Label histories and times of labels that hypotheses hold: what memory grows with. At most about
  // three for each label of each hypothesis.
  virtual size_t num_held() const = 0;

  // The answer as it stands, best first, at most n_best; once done, the answer. Hypotheses that the
  // options allow only as beginnings (of an entry, of the prefix) are left out: it may be empty.
  virtual std::vector<FrameHypothesis> Results() const = 0;
};

// Endpoint rules: when a stream of frames has come to the end of an utterance (as Kaldi and sherpa
// have them). Pure functions of what a search reports of its leading hypothesis, counted in frames,
// so that a segment's end does not depend on when frames arrived.

// Met if all of it is.
struct EndpointRule {
  bool needs_label = false;         // the leading hypothesis has a label
  int64_t min_trailing_blanks = 0;  // frames behind its last label
  int64_t min_frames = 0;           // frames of the segment
  friend bool operator==(const EndpointRule&, const EndpointRule&) = default;
};

// The number of the first rule that is met; -1: none.
int MetRule(absl::Span<const EndpointRule> rules, int num_labels, int64_t trailing_blanks,
            int64_t num_frames);
int MetRule(absl::Span<const EndpointRule> rules, const FrameSearch& search);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_SEARCH_H_
