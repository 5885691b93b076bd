// What a caller may ask of one beam search, with the defaults, and the one function that refuses
// what makes no sense. docs/decoding.md defines every option and formula.
#ifndef BEAMWRIGHT_SERVER_SEARCH_OPTIONS_H_
#define BEAMWRIGHT_SERVER_SEARCH_OPTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::search {

inline constexpr int kMaxBeamSize = 256;
inline constexpr int kMaxLength = 65536;
inline constexpr double kMaxAbsAlpha = 10;

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
};

using TokenSequence = std::vector<int32_t>;

// What changes the choice of single tokens (processors.h). Tokens are ids in [0, vocabulary_size);
// sequences are not empty.
struct ProcessorOptions {
  double repetition_penalty = 1;  // > 0; 1: none
  int no_repeat_ngram = 0;        // >= 0; 0: none
  std::vector<int32_t> suppressed;
  std::vector<int32_t> suppressed_at_begin;
  std::vector<TokenSequence> suppressed_sequences;
  int min_length = 0;      // tokens before an end token, 0 to max_length
  double temperature = 1;  // > 0
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
  double patience = 1;      // kCount only; > 0, finite; may stop with fewer than n_best finished
  int max_length = 0;       // most tokens to generate, 1 to kMaxLength; must be set
  int vocabulary_size = 0;  // tokens that the model chooses from, >= 1; must be set
  int32_t begin_token = 0;  // what the first step reads, >= 0; may lie outside the vocabulary
  // A hypothesis that chooses one of them has finished. None: all run to max_length.
  std::vector<int32_t> end_tokens;
  // Never generated, and without share in the log-sum-exp (padding, begin). No end token among
  // them.
  std::vector<int32_t> banned_tokens;
  ProcessorOptions processors;
};

// OK, or InvalidArgument that names every wrong field, its value and what is allowed.
absl::Status Validate(const SearchOptions& options);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_SERVER_SEARCH_OPTIONS_H_
