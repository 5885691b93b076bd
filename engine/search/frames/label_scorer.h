// LabelScorer: a scorer besides the model that says how probable a label is behind the labels
// before it, as an n-gram model does (docs/decoding.md, 'Fusion'). What it must know of a history
// is one number, its state, so that the search carries it along with the labels and asks for single
// labels: a frame asks for tens, not for the whole vocabulary. A recurrent language model, whose
// states are tensors, is no LabelScorer: its scores come with the candidates (FrameOptions::
// scorers).
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_SCORER_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_SCORER_H_

#include <cstdint>
#include <memory>
#include <string>

namespace beamwright::search {

// Thread-safe: immutable once made, and shared by all searches that use it.
class LabelScorer {
 public:
  virtual ~LabelScorer() = default;

  // Before any label.
  virtual int64_t Start() const = 0;
  // One label later.
  virtual int64_t Next(int64_t state, int32_t label) const = 0;
  // Natural logarithm, at most 0; -infinity where the label can't follow.
  virtual float LogProb(int64_t state, int32_t label) const = 0;
  // Of the end behind the state; counts once no frame is left. 0: the scorer knows no end.
  virtual float LogProbOfEnd(int64_t /*state*/) const { return 0; }
};

struct WeightedLabelScorer {
  std::string name;
  float weight =
      1;  // finite, not 0; below 0 log-probabilities count no lower than kLeastSubtracted
  std::shared_ptr<const LabelScorer> scorer;  // not null
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LABEL_SCORER_H_
