// CtcSearch: prefix beam search over frames of a CTC model (Hannun et al. 2014, algorithm 1; Graves
// 2012, section 7.5). A frame's distribution does not depend on labels, so there is one row a
// frame, whatever the beam.
//
// A hypothesis is a prefix: a sequence of labels. The probability of all alignments seen so far
// that spell it is kept in two parts, those that end in the blank and those that end in its last
// label, because a repeated label goes on from the first part only:
//
//   blank'(l)     = p(blank) (blank(l) + label(l))
//   label'(l c)   = p(c) (label(l c) + blank(l) + [c is not the last of l] label(l))
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/frames/log_prob_row.h"
#include "engine/search/options.h"

namespace beamwright::search {

// How the alignments of the labels before a search end, where it goes on with the frames behind
// them: a label that still lasts is not said again. Log-probabilities, which add up to 1.
struct CtcBegin {
  int32_t label = -1;           // that may last; -1: none
  double blank = 0;             // of alignments that end in the blank
  double continued = kLogZero;  // of alignments that end in `label`
};

// Movable. One thread at a time. Steady frames allocate nothing; memory grows with labels, not with
// frames.
class CtcSearch final : public FrameSearch {
 public:
  // The plan's kind is kCtc.
  explicit CtcSearch(std::shared_ptr<const FramePlan> plan, const CtcBegin& begin = {});
  ~CtcSearch() override;
  CtcSearch(CtcSearch&&) noexcept;
  CtcSearch& operator=(CtcSearch&&) noexcept;

  // rows(), label_steps() and slots concern scorers that come with rows: without them, the code
  // that drives the search needs done() and Advance alone. rows() has one element for each live
  // prefix, all of the same frame.
  void AddFrames(int64_t count) override;
  void Finish() override;
  bool done() const override;
  absl::Span<const FrameRow> rows() const override;
  absl::Span<const LabelStep> label_steps() const override;
  int num_slots() const override;
  int64_t frame() const override;
  void AddStableLabels(std::vector<int32_t>& labels) const override;
  int64_t trailing_blanks() const override;
  int num_labels() const override;
  size_t num_held() const override;
  std::vector<FrameHypothesis> Results() const override;

  // What a search of the frames to come begins with, once the labels of Results()[0] are said.
  CtcBegin End() const;

  // The next frame, which must have been added: natural-log probabilities of all labels and the
  // blank (log-probabilities that a model has rounded above 0, by up to kRoundedUp, count as 0).
  // With a temperature, logits are as good. fused: one for each of rows(), where there are scorers
  // that come with rows; else empty.
  //
  // InvalidArgument naming frame and token: a value is NaN or above 0, or the size is wrong.
  // FailedPrecondition: no prefix can go on, because all that the options leave has probability 0.
  // An error leaves the search as it was.
  absl::Status Advance(absl::Span<const float> log_probs,
                       absl::Span<const FusedRow* const> fused = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_CTC_SEARCH_H_
