// What a caller may ask of a search that moves by frames, and the plan that is compiled of it.
//
// Such a search reads frames, not tokens: in each frame a hypothesis emits a label or the blank,
// and several ways to emit the same labels (alignments) are one hypothesis. So options see labels
// only; the blank is no label, and no option counts, bans or rewards it but blank_penalty.
// docs/decoding.md, 'Frames', defines every option and formula.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/search/hotwords.h"
#include "engine/search/options.h"
#include "engine/search/processor.h"
#include "engine/search/tries.h"

namespace beamwright::search {

// LabelScorer: a scorer besides the model that says how probable a label is behind the labels
// before it, as an n-gram model does (docs/decoding.md, 'Fusion'). What it must know of a history
// is one number, its state, so that the search carries it along with the labels and asks for single
// labels: a frame asks for tens, not for the whole vocabulary. A recurrent language model, whose
// states are tensors, is no LabelScorer: its scores come with the candidates (FrameOptions::
// scorers).

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

inline constexpr int kMaxSymbolsPerFrame = 100;
inline constexpr int kMaxDuration = 1000;  // frames that one symbol may take
inline constexpr int kMaxDurations = 64;   // different ones
inline constexpr double kMaxAbsBlankPenalty = 100;

enum class FrameKind : uint8_t {
  kCtc,               // one distribution a frame, whatever the labels (Graves et al. 2006)
  kTransducer,        // a joiner of frame and labels so far (Graves 2012)
  kTokenAndDuration,  // that, and how many frames the symbol takes (Xu et al. 2023)
  kTags,              // exactly one label a frame, which is a position of the source; no blank
};

// How hypotheses with equal labels become one. Best paths, and so times, are the larger one's.
enum class Recombine : uint8_t {
  kSum,   // log(exp(a) + exp(b)), in double, the larger first
  kMax,   // the larger
  kNone,  // they stay apart and share the beam; the answer lists the best one. Transducers only
};

struct FrameOptions {
  FrameKind kind = FrameKind::kTransducer;
  int vocabulary_size = 0;  // labels and the blank, >= 2; must be set
  int32_t blank = 0;        // in [0, vocabulary_size); -1: kTags
  // Frames that a symbol may take, different, as the model orders them; kTokenAndDuration alone,
  // which must have one > 0.
  std::vector<int> durations;

  int beam_size = 4;  // hypotheses kept, 1 to kMaxBeamSize; 1 is greedy search
  int n_best = 1;     // hypotheses returned, 1 to beam_size
  // Labels that are tried of each hypothesis, 1 to vocabulary_size: those of a row that masks leave
  // whose log-probability, with what they gain as the beginning of a hotword, is largest. Besides,
  // what goes on with a hotword that has begun is tried always. 0: as many as beam_size; of CTC,
  // where rows cost nothing, all.
  int expansion = 0;
  // Transducers: labels that a hypothesis emits in a frame at most, 1 to kMaxSymbolsPerFrame. The
  // last of them ends the frame without a blank. 1: Kang et al. 2022, "modified beam search".
  int max_symbols_per_frame = 1;
  // kTransducer only: hypotheses are compared at equal numbers of symbols, not at equal frames
  // (Saon et al. 2020); then max_symbols_per_frame must be 1 and says nothing: labels are bounded
  // by max_length alone.
  bool alignment_length_synchronous = false;
  Recombine recombine = Recombine::kSum;
  // Taken off the blank's logit before the softmax, within +-kMaxAbsBlankPenalty: more labels.
  double blank_penalty = 0;
  // > 0: a hypothesis that ranks lower than the best by more is dropped when a frame ends. 0: off.
  double frame_beam = 0;
  double temperature = 1;  // > 0: logits are divided by it
  double word_reward = 0;  // added to the score for each label, within +-1000
  // What scores of answers are divided by: LengthNorm of their labels and the end. Ranks are not.
  LengthPenalty length_penalty = LengthPenalty::kNone;
  double alpha = 1;
  int max_length = kMaxLength;  // most labels, 1 to kMaxLength

  // Never emitted. Masks leave all log-probabilities alone: nothing is renormalised, so that an
  // answer's log-probability is the model's.
  std::vector<int32_t> suppressed;
  std::vector<int32_t> suppressed_at_begin;
  std::vector<TokenSequence> suppressed_sequences;
  int no_repeat_ngram = 0;         // >= 0; 0: off
  std::vector<int32_t> shortlist;  // only these; ascending; empty: all
  TokenSequence prefix;            // every answer starts with it
  // Answers are entries of it; may be null. Its end token must be the blank, which is how a
  // complete entry differs from the beginning of a longer one.
  std::shared_ptr<const TokenTrie> allowed;
  std::vector<Hotword> hotwords;

  // Scorers whose log-probabilities come with the rows (recurrent models, a transducer's internal
  // language model with a weight below 0); at most kMaxScorers.
  std::vector<ScorerWeight> scorers;
  // Scorers that are asked by label; at most kMaxScorers.
  std::vector<WeightedLabelScorer> label_scorers;

  // Labels tried of a row.
  int num_expanded() const;
  // Frames that a symbol takes at most.
  int longest_duration() const;
};

// OK, or InvalidArgument that names every wrong field, its value and what is allowed.
absl::Status Validate(const FrameOptions& options);

// An upper bound of FrameSearch::num_slots.
int MaxSlots(const FrameOptions& options);

// The options, checked, and what is compiled of them (the automaton of hotwords among them). One
// for a call, shared by the searches of all its sources. Immutable and thread-safe.
class FramePlan {
 public:
  // As Validate.
  static absl::StatusOr<std::shared_ptr<const FramePlan>> Create(FrameOptions options);

  const FrameOptions& options() const { return options_; }
  // In their order, pure functions of the labels: masks, then (if there are any) hotwords.
  absl::Span<const std::unique_ptr<const Processor>> processors() const { return processors_; }
  absl::Span<const std::unique_ptr<const Processor>> masks() const {
    return processors().subspan(0, num_masks_);
  }
  bool has_hotwords() const { return !options_.hotwords.empty(); }
  // Null without hotwords.
  const Hotwords* hotwords() const { return hotwords_; }
  // Whether what may follow depends on the labels before.
  bool masks_histories() const { return masks_histories_; }
  // Whether a mask reads more of a history than its own state and the number of labels.
  bool reads_labels() const { return reads_labels_; }
  // What no mask bars everywhere, ascending; without the blank.
  absl::Span<const int32_t> open_labels() const { return open_labels_; }
  // [vocabulary_size]: what labels gain as the beginning of a hotword; empty without hotwords.
  absl::Span<const float> start_gains() const { return start_gains_; }

 private:
  explicit FramePlan(FrameOptions options);
  void FindOpenLabels();
  void FindStartGains();

  FrameOptions options_;
  std::vector<std::unique_ptr<const Processor>> processors_;
  size_t num_masks_;
  const Hotwords* hotwords_ = nullptr;  // the last of processors_
  bool masks_histories_ = false;
  bool reads_labels_ = false;
  std::vector<int32_t> open_labels_;
  std::vector<float> start_gains_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_OPTIONS_H_
