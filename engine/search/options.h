// What a caller may ask of one search, with the defaults, and the one function that refuses
// what makes no sense. docs/decoding.md defines every option and formula.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_OPTIONS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_OPTIONS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/grammar/constraint.h"
#include "engine/search/tries.h"

namespace beamwright::search {

// What further scorers say of one row's next token, joined with their weights into what
// the row's ranks gain (docs/decoding.md, 'Fusion'); and what each decoder of an ensemble says. The
// search asks nothing of them itself: the code that runs the model runs them too, and moves their
// states as the search moves rows.

inline constexpr int kMaxScorers = 4;  // that count in one request
inline constexpr int kMaxMembers = 8;  // decoders of an ensemble
// Log-probabilities that are subtracted count no lower: else a token would win by being impossible,
// and what a hypothesis can still gain would have no bound.
inline constexpr float kLeastSubtracted = -20;

struct ScorerWeight {
  std::string name;
  float weight = 1;  // finite, not 0
};

// One row's scores; keep it from step to step, so that steady steps allocate nothing. One thread at
// a time.
class FusedRow {
 public:
  // To be filled with scorer `index`'s natural-log probabilities of all tokens, for each index,
  // before Join. Values above 0 count as 0.
  absl::Span<float> Scores(size_t index, size_t vocabulary_size);

  // added() = the sum over scorers, in order and in f32, of weight * log-probability.
  void Join(absl::Span<const ScorerWeight> scorers);

  absl::Span<const float> added() const { return added_; }
  // What scorer `index` said of the token, as it counts.
  float score(size_t index, int32_t token) const {
    return scores_[index][static_cast<size_t>(token)];
  }

 private:
  std::array<std::vector<float>, kMaxScorers> scores_;
  std::vector<float> added_;
};

// One decoder of an ensemble behind one row: a view of its scores in this step.
struct MemberScores {
  absl::Span<const float> scores;
  float shift = 0;         // log-probability = score - shift; or
  bool are_probs = false;  // = log(score)

  // Natural logarithm, at most 0.
  float log_prob(int32_t token) const;
};

// What is reported of a token besides its log-probability: of each scorer, then of each member.
using TokenParts = std::array<float, kMaxScorers + kMaxMembers>;

inline constexpr int kMaxBeamSize = 256;
inline constexpr int kMaxLength = 65536;
inline constexpr double kMaxAbsAlpha = 10;
inline constexpr int kMaxConstraints = 32;
inline constexpr int kMaxConstraintLength = 1000;

// S: the sum of the log-probabilities; n: generated tokens, the end token included.
enum class LengthPenalty : uint8_t {
  kNone,  // score = S
  kPow,   // score = S / n^alpha
  kGnmt,  // score = S / ((5 + n) / 6)^alpha (Wu et al. 2016, section 7)
};

// When a search ends before the maximum length. Greedy search (beam_size 1) ignores it.
enum class StopMode : uint8_t {
  kSafe,   // no live hypothesis can enter the n-best list any more: the n-best list of kNever
  kFirst,  // the best-ranked pair of a step is an end token
  kCount,  // round(beam_size * patience), at least 1, hypotheses have finished
  kNever,  // when no hypothesis is live
  // beam_size hypotheses have finished, and no live one would score above the worst of the best
  // beam_size of them if it ended at its present length
  kHeuristic,
};

// What happens to a hypothesis that reaches the maximum length.
enum class AtLimit : uint8_t {
  kCut,       // it ends as it is
  kForceEnd,  // the last token must be an end token, at its own log-probability
};

enum class Sampling : uint8_t {
  kNone,
  kRandom,              // n_best samples with replacement, each in a separate row
  kWithoutReplacement,  // stochastic beam search (Kool, van Hoof, Welling 2019)
};

struct Hotword {
  TokenSequence tokens;
  double bonus = 0;  // >= 0, for each occurrence
};

// What a hypothesis must or should contain. Tokens as in ProcessorOptions; no end tokens.
struct ConstraintOptions {
  TokenSequence prefix;           // every hypothesis starts with it; not counted as generated
  bool score_prefix = false;      // its log-probabilities and its length count in scores
  TokenSequence soft_prefix;      // what follows the prefix, by preference:
  double soft_prefix_weight = 0;  // in [0, 1): probability moved to it while a row has followed it
  // Hypotheses are entries of it, each closed by an end token; or null.
  std::shared_ptr<const TokenTrie> allowed;
  // What hypotheses write behind the prefix is one of its texts, then an end token; may be null.
  std::shared_ptr<const grammar::Constraint> text;
  std::vector<int32_t> shortlist;       // only these and the end tokens; ascending; empty: all
  std::vector<TokenSequence> required;  // each occurs; they share no tokens
  bool required_in_order = false;
  std::vector<Hotword> hotwords;
  int num_alternatives = 0;         // > 0: the number of different first tokens; then n_best
  double alternative_min_prob = 0;  // of a first token, [0, 1]
};

struct SamplingOptions {
  Sampling kind = Sampling::kNone;
  uint64_t seed = 0;
  int top_k = 0;  // kRandom only, like the next two; see RowDraw
  double top_p = 1;
  double min_p = 0;
};

// What is added to a token's logit.
struct TokenBias {
  int32_t token = 0;
  float bias = 0;
};

// What changes the choice of single tokens (processor.h). Tokens are ids in [0, vocabulary_size);
// sequences are not empty.
struct ProcessorOptions {
  double repetition_penalty = 1;  // > 0; 1: none
  int no_repeat_ngram = 0;        // >= 0; 0: none
  std::vector<int32_t> suppressed;
  std::vector<int32_t> suppressed_at_begin;
  std::vector<TokenSequence> suppressed_sequences;
  std::vector<TokenBias> logit_bias;  // tokens ascending and distinct; finite
  int min_length = 0;                 // tokens before an end token, 0 to max_length
  double temperature = 1;             // > 0
  // Tokens from this one on are times as Whisper writes them (timestamps.h). -1: no token is.
  int32_t first_timestamp = -1;
  // False: log-probabilities are those before the processors, changed by them, and no distribution
  // any more.
  bool renormalize = true;
};

struct SearchOptions {
  int beam_size = 4;  // hypotheses kept at each step, 1 to kMaxBeamSize; 1 is greedy search
  int n_best = 1;     // hypotheses returned, 1 to beam_size
  LengthPenalty length_penalty = LengthPenalty::kNone;
  double alpha = 1;  // exponent of the length penalty, within +-kMaxAbsAlpha
  StopMode stop = StopMode::kSafe;
  double patience = 1;  // kCount only; > 0, finite; may stop with fewer than n_best finished
  AtLimit at_limit = AtLimit::kCut;
  // beta of wu (Wu et al. 2016, equation 14), >= 0; else candidates must come with attention.
  double coverage_penalty = 0;
  // A caller may cut the search at any step (BeamSearch::Cut).
  bool may_be_cut = false;
  double word_reward = 0;  // added to the sum for each token, before the length penalty
  // > 0: an end token may be chosen only if its log-probability is above this multiple of the best
  // other token's in its row; 0: always.
  double end_threshold = 0;
  // A hypothesis that scores less is not listed.
  double score_threshold = -std::numeric_limits<double>::infinity();
  // A pair whose rank is lower than the best pair's by more than this is dropped. >= 0.
  double beam_threshold = std::numeric_limits<double>::infinity();
  int num_groups = 1;            // beams of beam_size / num_groups rows each (Vijayakumar 2016)
  double diversity_penalty = 0;  // off a token's rank for each earlier group's row that chose it
  int max_length = 0;            // most tokens to generate, 1 to kMaxLength; must be set
  int vocabulary_size = 0;       // tokens that the model chooses from, >= 1; must be set
  int32_t begin_token = 0;       // what the first step reads, >= 0; may lie outside the vocabulary
  // A hypothesis that completes one of them has finished. May be null.
  std::shared_ptr<const StopStrings> stop_strings;
  // A hypothesis that chooses one of them has finished. None: all run to max_length.
  std::vector<int32_t> end_tokens;
  // Never generated, and without share in the log-sum-exp (padding, begin). No end token among
  // them.
  std::vector<int32_t> banned_tokens;
  ProcessorOptions processors;
  ConstraintOptions constraints;
  SamplingOptions sampling;
  std::vector<ScorerWeight> scorers;  // at most kMaxScorers; what they say comes with candidates
  int num_members = 0;                // > 0: decoders of an ensemble; candidates have their scores
  int num_top_tokens = 0;             // alternatives recorded for each token of an answer
  int trace = 0;  // > 0: the search records its steps, with this number of dropped candidates
};

// Options that do not go together, by the names of the fields of DecodeOptions.
struct Conflict {
  std::string options;  // "sampling and diverse_groups"
  std::string text;     // "exclude each other"
};
std::vector<Conflict> Conflicts(const SearchOptions& options);

// OK, or InvalidArgument that names every wrong field, its value and what is allowed, and every
// conflict.
absl::Status Validate(const SearchOptions& options);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_OPTIONS_H_
