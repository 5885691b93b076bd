// NgramModel: a back-off language model over the target vocabulary. An n-gram's context is a state:
// a search carries one number per row.
//
// Katz back-off as ARPA files mean it: with h' the history h without its first word,
//   log p(w | h) = log p as listed              if h w is listed
//                = backoff(h) + log p(w | h')   otherwise; backoff is 0 where h is not listed.
// Only the last order - 1 words of a history count. Numbers of the file (f32, decimal logarithms)
// are added in double from the longest history on, made natural logarithms, cut at 0 (careless
// back-off weights can exceed it), and rounded to f32 once.
#ifndef BEAMWRIGHT_ENGINE_FUSION_NGRAM_MODEL_H_
#define BEAMWRIGHT_ENGINE_FUSION_NGRAM_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/base/vector_isa.h"

namespace beamwright::fusion {

// One line of an ARPA file, its words as numbers (see NgramVocabulary).
struct Ngram {
  std::vector<int32_t> words;
  float log10_prob = 0;
  float log10_backoff = 0;
  int line = 0;
};

// How tokens and the model's words belong together. Words are numbered like tokens; three are not
// tokens.
struct NgramVocabulary {
  int num_tokens = 0;
  std::vector<int32_t> end_tokens;                         // each of them is the word </s>
  int32_t begin_word() const { return num_tokens; }        // <s>
  int32_t end_word() const { return num_tokens + 1; }      // </s>
  int32_t unknown_word() const { return num_tokens + 2; }  // <unk>: tokens that have no unigram
};

// Immutable and thread-safe.
class NgramModel {
 public:
  virtual ~NgramModel() = default;

  // `ngrams`: of all orders, in any order; 20 bytes an n-gram and 8 bytes a token.
  // InvalidArgument naming the line: an n-gram is there twice or too long, or its context is not
  // listed. Without <unk>, tokens without unigram have kUnknownLog10Prob (KenLM's); without </s>,
  // so have end tokens.
  static absl::StatusOr<std::shared_ptr<const NgramModel>> Create(const NgramVocabulary& vocabulary,
                                                                  std::vector<Ngram> ngrams);
  static constexpr float kUnknownLog10Prob = -100;
  static constexpr int kMaxOrder = 16;

  using State = int32_t;
  // Behind <s>, where the model has it; else without history.
  virtual State Start() const = 0;
  virtual State Next(State state, int32_t token) const = 0;
  // log p(token | state) for all tokens.
  virtual void Score(State state, absl::Span<float> log_probs) const = 0;
  // The same of one token, to the bit, for searches that ask for few of them; and of the end,
  // whether or not a token stands for it.
  virtual float LogProb(State state, int32_t token) const = 0;
  virtual float LogProbOfEnd(State state) const = 0;
  // By token: an upper bound of its score behind any history.
  virtual std::vector<float> MostOfTokens() const = 0;

  virtual int order() const = 0;
  virtual int64_t num_ngrams() const = 0;
  virtual int64_t num_bytes() const = 0;
};

// The natural logarithm of a probability, at most 0.
BW_ALWAYS_INLINE inline float NaturalLog(double log10) {
  constexpr double kLog10 = 2.302585092994045684;  // ln 10
  const double natural = log10 * kLog10;
  return static_cast<float>(natural < 0 ? natural : 0);
}

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_NGRAM_MODEL_H_
