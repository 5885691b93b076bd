// The search of a tagger: the lattice over every sequence of labels, one for each position of a
// source, and the best of them.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TAG_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TAG_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_score.h"
#include "engine/search/frames/frame_search.h"

namespace beamwright::search {

// TagLattice: what a tagger says of every sequence of labels, one for each position of a source.
//
// The encoder scores labels at positions. Without transitions positions are independent, and
//
//   log p(y) = sum over t of log_softmax(scores[t])[y[t]]
//
// With those of a linear-chain CRF (Lafferty et al. 2001) neighbours depend on each other:
//
//   energy(y) = first[y[0]] + sum over t of scores[t][y[t]] + between[y[t-1]][y[t]] + last[y[n-1]]
//   log p(y) = energy(y) - log of the sum over all y' of exp(energy(y'))
//
// One pass from the last position to the first finds that sum, as log-sums of what may follow each
// label. They also split log p(y) into one log-probability for each position, given the label
// before it.

// Scores of neighbouring labels; none is NaN or +infinity, -infinity rules a pair out.
struct TagTransitions {
  std::vector<float> between;  // [labels, labels], from a label (row) to the next one (column)
  std::vector<float> first;    // [labels], of the label at the first position
  std::vector<float> last;     // [labels], of the label at the last position
};

// Movable. One thread at a time.
class TagLattice {
 public:
  // options: outlive this; vocabulary_size is the number of labels. transitions: null without a
  // CRF; outlive this.
  TagLattice(const FrameOptions& options, const TagTransitions* transitions)
      : options_(&options), transitions_(transitions) {}

  // scores: [positions, labels], row-major; log-probabilities without transitions, else any
  // numbers; they outlive this. InvalidArgument naming position and label: NaN, +infinity, or
  // without transitions not a log-probability; no position.
  absl::Status SetScores(absl::Span<const float> scores);
  int64_t num_positions() const { return num_positions_; }
  int num_labels() const { return options_->vocabulary_size; }
  bool has_transitions() const { return transitions_ != nullptr; }

  // Reads `count` more positions, from the last one on. Once all are read, all else may be called.
  // FailedPrecondition: no sequence of labels has a probability above 0.
  absl::Status Advance(int64_t count);
  bool is_ready() const { return num_positions_ > 0 && num_read_ == num_positions_; }

  // What `label` adds to the energy at `position`, behind `before`, which is -1 at position 0;
  // without transitions its log-probability.
  double Energy(int64_t position, int32_t before, int32_t label) const;
  // The log-probability of `label` at `position`, given `before`; they add up to that of the
  // sequence.
  double LogProb(int64_t position, int32_t before, int32_t label) const;
  // -infinity for labels of another number than positions.
  FrameScore ScoreOf(absl::Span<const int32_t> labels) const;
  // Of transitions alone, divided by the temperature.
  double Between(int32_t before, int32_t label) const;
  double Last(int32_t label) const;

 private:
  double at(int64_t position, int32_t label) const {
    return static_cast<double>(
               scores_[static_cast<size_t>(position) * labels() + static_cast<size_t>(label)]) /
           options_->temperature;
  }
  size_t labels() const { return static_cast<size_t>(options_->vocabulary_size); }
  double& behind(int64_t position, int32_t label) {
    return behind_[static_cast<size_t>(position) * labels() + static_cast<size_t>(label)];
  }
  double behind(int64_t position, int32_t label) const {
    return behind_[static_cast<size_t>(position) * labels() + static_cast<size_t>(label)];
  }
  void ReadPosition(int64_t position);

  const FrameOptions* options_;
  const TagTransitions* transitions_;
  absl::Span<const float> scores_;
  int64_t num_positions_ = 0;
  int64_t num_read_ = 0;
  // With transitions: [positions, labels], the log-sum of all that may follow a label. Without:
  // [positions], what makes scores a distribution again after the temperature.
  std::vector<double> behind_;
  std::vector<double> norms_;
  double log_sum_ = 0;  // with transitions: over all sequences
  std::vector<double> scratch_;
};

// TagSearch: the best sequences of labels of a TagLattice, one label for each position.
//
// A beam of the beginnings whose best completion is best. The most that the positions behind may
// add is known before (without transitions it is the same for all beginnings), so a beginning of
// one of the n best sequences is never behind n others: the answer is exact for every n up to the
// beam size, and needs no list for each label.

// One thread at a time.
class TagSearch final : public FrameSearch {
 public:
  // plan: of kind kTags. transitions: null without a CRF; outlive this.
  TagSearch(std::shared_ptr<const FramePlan> plan, const TagTransitions* transitions);

  // As TagLattice::SetScores; before it there are no rows.
  absl::Status SetScores(absl::Span<const float> scores);
  // Goes on by `count` positions, backwards first, then forwards. FailedPrecondition: nothing that
  // the options leave has a probability above 0, or the prefix is longer than the source.
  absl::Status Advance(int64_t count);

  // All positions are known at once: these two do nothing.
  void AddFrames(int64_t /*count*/) override {}
  void Finish() override {}
  bool done() const override {
    return lattice_.is_ready() && num_read_ == lattice_.num_positions();
  }
  // One row until done, of slot 0.
  absl::Span<const FrameRow> rows() const override;
  absl::Span<const LabelStep> label_steps() const override { return {}; }
  int num_slots() const override { return 1; }
  int64_t frame() const override { return num_read_; }
  void AddStableLabels(std::vector<int32_t>& labels) const override;
  int64_t trailing_blanks() const override { return 0; }
  int num_labels() const override { return static_cast<int>(num_read_); }
  size_t num_held() const override { return entries_.size(); }
  std::vector<FrameHypothesis> Results() const override;

 private:
  // A beginning, by its last label.
  struct Entry {
    int32_t parent = -1;  // into entries_
    int32_t label = -1;
    double energy = 0;  // of the beginning
    double log_prob = 0;
    float step_log_prob = 0;
    int32_t order = 0;  // of its labels among the beam's, in dictionary order
  };
  struct Candidate {
    double rank = 0;
    double energy = 0;
    int32_t parent = -1;
    int32_t label = -1;
  };

  // What the options leave at a position.
  absl::Span<const int32_t> Open(int64_t position) const;
  double Most(int64_t position, int32_t label) const {
    return most_.empty() ? 0 : most_[static_cast<size_t>(position * lattice_.num_labels() + label)];
  }
  void FindMost(int64_t position);
  absl::Status ReadPosition();
  void Keep(absl::Span<const Candidate> candidates);

  std::shared_ptr<const FramePlan> plan_;
  TagLattice lattice_;
  std::vector<int32_t> open_;        // labels that may be chosen
  std::vector<int32_t> open_first_;  // at the first position
  // With transitions: [positions, labels], the most that what follows a label may add.
  std::vector<double> most_;
  int64_t num_ranked_ = 0;  // positions of most_ that are filled, from the last one on
  int64_t num_read_ = 0;
  std::vector<Entry> entries_;  // of all positions
  std::vector<size_t> begins_;  // where those of a position begin
  std::vector<Candidate> candidates_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TAG_SEARCH_H_
