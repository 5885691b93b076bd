// Scorers that look at the words of an answer and need no model of them, behind a search over
// letters or pieces of words: a lexicon that admits its words alone, and a count of words, which a
// weight makes a reward for each (pyctcdecode's beta, flashlight-text's word score).
#ifndef BEAMWRIGHT_ENGINE_FUSION_LEXICON_H_
#define BEAMWRIGHT_ENGINE_FUSION_LEXICON_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "engine/fusion/row_scorer.h"
#include "engine/fusion/word_tree.h"

namespace beamwright::fusion {

// log p is 0 of a token that listed words go on or end with, else -infinity. Immutable and
// thread-safe.
class Lexicon {
 public:
  Lexicon(absl::Span<const std::string> words, WordTokens tokens)
      : tokens_(std::move(tokens)), tree_(words) {}

  using State = int64_t;  // the node of the word under way
  State Start() const { return WordTree::kRoot; }
  State Next(State state, int32_t token) const;
  float LogProb(State state, int32_t token) const;
  // -infinity inside of a word.
  float LogProbOfEnd(State state) const;
  void Score(State state, absl::Span<float> log_probs) const;

  int64_t num_bytes() const { return tree_.num_bytes(); }

 private:
  WordTokens tokens_;
  WordTree tree_;
};

// log p is -1 of a token for each word that begins in it. Immutable and thread-safe.
class WordCount {
 public:
  explicit WordCount(WordTokens tokens) : tokens_(std::move(tokens)) {}

  using State = int64_t;  // 1 inside of a word, 0 between words
  State Start() const { return 0; }
  State Next(State state, int32_t token) const { return Walk(state, token).first; }
  float LogProb(State state, int32_t token) const {
    return tokens_.IsEnd(token) ? 0 : -static_cast<float>(Walk(state, token).second);
  }
  float LogProbOfEnd(State /*state*/) const { return 0; }
  void Score(State state, absl::Span<float> log_probs) const;

 private:
  // The state behind a token, and how many words it begins.
  std::pair<State, int> Walk(State state, int32_t token) const;

  WordTokens tokens_;
};

using LexiconScorer = ModelScorer<Lexicon>;
using WordCountScorer = ModelScorer<WordCount>;

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_LEXICON_H_
