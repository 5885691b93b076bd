// NgramModel: a back-off language model over the target vocabulary, in flat arrays. An n-gram's
// context is a state: a search carries one number per row.
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
#include "engine/fusion/row_scorer.h"

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

// Immutable and thread-safe. 20 bytes an n-gram and 8 bytes a token.
class NgramModel {
 public:
  // `ngrams`: of all orders, in any order. InvalidArgument naming the line: an n-gram is there
  // twice or too long, or its context is not listed. Without <unk>, tokens without unigram have
  // kUnknownLog10Prob (KenLM's); without </s>, so have end tokens.
  static absl::StatusOr<std::shared_ptr<const NgramModel>> Create(const NgramVocabulary& vocabulary,
                                                                  std::vector<Ngram> ngrams);
  static constexpr float kUnknownLog10Prob = -100;
  static constexpr int kMaxOrder = 16;

  using State = int32_t;
  // Behind <s>, where the model has it; else without history.
  State Start() const { return start_; }
  State Next(State state, int32_t token) const;
  // log p(token | state) for all tokens.
  void Score(State state, absl::Span<float> log_probs) const;
  // The same of one token, to the bit, for searches that ask for few of them; and of the end,
  // whether or not a token stands for it.
  float LogProb(State state, int32_t token) const;
  float LogProbOfEnd(State state) const;
  // By token: the most that it has behind any history.
  std::vector<float> MostOfTokens() const;

  int order() const { return static_cast<int>(level_starts_.size()) - 2; }
  int64_t num_ngrams() const { return static_cast<int64_t>(words_.size()) - 1; }
  int64_t num_bytes() const;

 private:
  static constexpr State kRoot = 0;
  static constexpr State kNone = -1;

  NgramModel() = default;
  absl::Status Build(std::vector<Ngram> ngrams);
  int32_t WordOf(int32_t token) const { return word_of_token_[static_cast<size_t>(token)]; }
  State Child(State node, int32_t word) const;
  // log p(word | state); log10_unigram: where no longer n-gram is listed.
  float LogProbOfWord(State state, int32_t word, float log10_unigram) const;
  // The longest proper suffix of a node's words that is a node; kNone of the root.
  void Link(absl::Span<const Ngram> ngrams);
  void MapTokens();
  // The tokens that a word stands for: one, several, or none.
  absl::Span<const int32_t> TokensOf(const int32_t& word) const;

  NgramVocabulary vocabulary_;
  // Nodes stand level by level, within a level by context and word: the children of node n are
  // first_child_[n] to first_child_[n + 1] - 1. Node 0 is the empty history.
  std::vector<int32_t> words_;
  std::vector<float> log10_probs_;
  std::vector<float> log10_backoffs_;
  std::vector<State> suffixes_;
  std::vector<State> first_child_;
  std::vector<State> level_starts_;  // by level: its first node; one more at the end
  std::vector<int32_t> word_of_token_;
  std::vector<float> unigrams_;          // by token, decimal logarithms
  std::vector<int32_t> unknown_tokens_;  // that are the word <unk>
  State start_ = kRoot;
};

using NgramScorer = ModelScorer<NgramModel>;

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_NGRAM_MODEL_H_
