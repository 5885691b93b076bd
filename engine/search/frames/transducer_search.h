// TransducerSearch: beam search over a transducer's frames, in one of three orders.
//
// By frames (max_symbols_per_frame S): in a frame a hypothesis emits up to S labels, and then the
// blank, which moves it to the next frame; the S-th label moves it as well. With S = 1 that is the
// modified beam search of Kang et al. 2022. A frame takes up to S rounds; a hypothesis goes into
// the next round only if fewer than beam_size of those that are as far, or further, rank above it,
// so that most frames take one.
//
// Token and duration (Xu et al. 2023): every symbol says how many frames it takes. Hypotheses that
// jumped wait at their frame; the rest is as above. A blank takes at least one frame, and so does
// the S-th label of a frame. In a beam above 1 all frames behind the last one are the end. So that
// what is merged there does not depend on when the end is known, a frame is read once the frames
// that a symbol can reach from it are there, or the end is known.
//
// Alignment-length synchronous (Saon et al. 2020): all hypotheses have the same number of symbols,
// blanks included, and read different frames.
//
// Hypotheses with equal labels at the same frame are merged (Recombine) before the beam is chosen.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_SEARCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/options.h"

namespace beamwright::search {

// What the scan of one row of the joiner found, under the row's rules.
struct FrameCandidates {
  // The row's best labels by rank, best first: as many as candidates_per_row says,
  // or fewer where the rules leave fewer. The blank may be among them and is passed over. A
  // log-probability of -infinity is allowed (never chosen); one above 0 by at most kRoundedUp is 0.
  absl::Span<const int32_t> labels;
  absl::Span<const float> log_probs;
  // Log-probabilities of rules().watched: the blank's, then those of labels that are tried whatever
  // their rank. They may be among `labels`, too.
  absl::Span<const float> watched;
  absl::Span<const float> duration_log_probs;  // of options.durations, in their order
  const FusedRow* fused = nullptr;             // where there are scorers that come with rows
};

// Movable. One thread at a time. Steady rounds allocate nothing; memory grows with labels, not with
// frames.
class TransducerSearch final : public FrameSearch {
 public:
  // The plan's kind is kTransducer or kTokenAndDuration.
  // first_frame: that it reads; a label before it takes the frames up to there.
  explicit TransducerSearch(std::shared_ptr<const FramePlan> plan, int64_t first_frame = 0);
  ~TransducerSearch() override;
  TransducerSearch(TransducerSearch&&) noexcept;
  TransducerSearch& operator=(TransducerSearch&&) noexcept;

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

  // Of a search that is done: frames behind its last one that the last label of Results()[0] takes.
  int64_t overhang() const;

  // What the scan of each row must apply (one for each of rows()): bans and allowed labels of
  // the history, the temperature, what hotwords add to ranks, and what is watched: the blank, and
  // labels that go on with a hotword. Scorers do not choose what is tried. Views as rows().
  absl::Span<const RowRules> rules() const;
  // Candidates that a row's scan must give, the blank possibly among them; more do no harm.
  int candidates_per_row() const;

  // One round: what each row's scan found, in the order of rows().
  //
  // InvalidArgument naming frame, row and label: a log-probability is NaN or above 0, a label is
  // outside the vocabulary, something is missing. FailedPrecondition: no hypothesis
  // can go on, because all that the options leave has probability 0. An error leaves the search as
  // it was.
  absl::Status Advance(absl::Span<const FrameCandidates> rows);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TRANSDUCER_SEARCH_H_
