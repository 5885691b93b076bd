// TagSearch: the best sequences of labels of a TagLattice, one label for each position.
//
// A beam of the beginnings whose best completion is best. The most that the positions behind may
// add is known before (without transitions it is the same for all beginnings), so a beginning of
// one of the n best sequences is never behind n others: the answer is exact for every n up to the
// beam size, and needs no list for each label.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TAG_SEARCH_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_TAG_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/frame_search.h"
#include "engine/search/frames/tag_lattice.h"

namespace beamwright::search {

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
