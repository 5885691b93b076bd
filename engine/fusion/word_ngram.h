// WordNgram: an n-gram model of words behind a search over letters or pieces of words, as
// flashlight-text and pyctcdecode have it. Tokens write text; a word is the text between spaces,
// and the model scores it when it ends:
//
//   log p(w | words before), of a word that the model does not list log p(<unk> | ...) - penalty
//
// Before its end a word is charged what it can come to at best: the most that any word which begins
// so has behind any words. So hypotheses inside of words compete with those at borders, and one
// that no listed word begins with pays for an unknown word at once. Charges are taken back at the
// word's end; they change no final score, and every step adds 0 at most.
#ifndef BEAMWRIGHT_ENGINE_FUSION_WORD_NGRAM_H_
#define BEAMWRIGHT_ENGINE_FUSION_WORD_NGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/fusion/ngram_model.h"
#include "engine/fusion/row_scorer.h"
#include "engine/fusion/word_tree.h"

namespace beamwright::fusion {

// Off the log-probability of a word that the model does not list (pyctcdecode's usual one).
inline constexpr double kUnknownWordPenalty = 10;

// Immutable and thread-safe. About 30 bytes a letter of the words besides the model.
class WordNgram {
 public:
  // words: by their number in `model`, which has one more token that stands for all other words.
  WordNgram(std::shared_ptr<const NgramModel> model, absl::Span<const std::string> words,
            WordTokens tokens);

  // The words before, and the beginning of the word under way.
  using State = int64_t;
  State Start() const { return Pack(model_->Start(), WordTree::kRoot); }
  State Next(State state, int32_t token) const;
  // Natural logarithm, at most 0.
  float LogProb(State state, int32_t token) const;
  // The end of the word under way, and </s>.
  float LogProbOfEnd(State state) const;
  // LogProb of every token.
  void Score(State state, absl::Span<float> log_probs) const;

  int num_words() const { return unknown_; }
  int64_t num_bytes() const;

 private:
  struct Place {
    NgramModel::State history = 0;
    int32_t node = WordTree::kRoot;
    double gain = 0;
  };

  static State Pack(NgramModel::State history, int32_t node) {
    return (static_cast<int64_t>(history) << 32) | static_cast<uint32_t>(node);
  }
  static Place Unpack(State state) {
    return {static_cast<NgramModel::State>(state >> 32),
            static_cast<int32_t>(static_cast<uint32_t>(state)), 0};
  }
  double Charged(int32_t node) const;
  void EndWord(Place& place) const;
  Place Walk(State state, int32_t token) const;

  std::shared_ptr<const NgramModel> model_;
  WordTokens tokens_;
  int32_t unknown_;  // the token of the model that stands for unknown words
  double most_unknown_ = 0;
  WordTree tree_;
  std::vector<float> most_;  // by node: what its words come to at best
};

using WordNgramScorer = ModelScorer<WordNgram>;

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_WORD_NGRAM_H_
