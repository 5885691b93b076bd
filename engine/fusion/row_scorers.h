// RowScorer: a scorer of the next token besides the model (an n-gram model, CTC prefix scores, a
// lexicon), at work for one request. It keeps what it must know of each live row's tokens
// and moves it as the search moves rows. docs/decoding.md, 'Fusion'.
#ifndef BEAMWRIGHT_ENGINE_FUSION_ROW_SCORERS_H_
#define BEAMWRIGHT_ENGINE_FUSION_ROW_SCORERS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

// Starts with one row without tokens.
class RowScorer {
 public:
  virtual ~RowScorer() = default;

  // Row i now continues row parents[i] of before with tokens[i]. Allocates only while the number of
  // rows grows.
  virtual void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) = 0;

  // Natural-log probability of each token behind the row's; at most 0, -infinity where it is
  // impossible. Threads may ask for different rows at once.
  virtual void Score(int row, absl::Span<float> log_probs) = 0;
};

// A model whose state behind a row's tokens is one number, at work for one request.
template <typename Model>
class ModelScorer final : public RowScorer {
 public:
  explicit ModelScorer(std::shared_ptr<const Model> model)
      : model_(std::move(model)), states_({model_->Start()}) {}

  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) override {
    next_states_.clear();
    for (size_t row = 0; row < parents.size(); ++row) {
      next_states_.push_back(model_->Next(states_[static_cast<size_t>(parents[row])], tokens[row]));
    }
    states_.swap(next_states_);
  }
  void Score(int row, absl::Span<float> log_probs) override {
    model_->Score(states_[static_cast<size_t>(row)], log_probs);
  }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<typename Model::State> states_;
  std::vector<typename Model::State> next_states_;
};

// CtcPrefix: what a CTC output of the encoder says of hypotheses. psi(g) is the probability of all
// alignments whose text begins with g (Graves 2012, section 7.3; Watanabe et al. 2017, algorithm
// 2): its logarithms' differences are the conditional log-probabilities
//   log p(c | g) = log psi(g c) - log psi(g),  log p(end | g) = log p(g exactly) - log psi(g)
// whose sum over a finished hypothesis is the CTC log-probability of its text.
//
// With r_n(t), r_b(t) the probability that the frames up to t spell g and end in its last token, or
// in a blank:
//   psi(g c) = sum over t of p_t(c) (r_b(t - 1) + [c is not the last of g] r_n(t - 1))
// Logarithms and sums are double; terms below e^-700 of the largest count as 0.

// A source's frames.
struct CtcFrames {
  std::vector<float> probs;  // [num_frames, num_columns], row-major; a token's column is its id
  int num_columns = 0;
  int blank = 0;  // its column, in [0, num_columns)
  size_t num_frames() const { return probs.size() / static_cast<size_t>(num_columns); }
};

// A token without a column, or whose column is the blank's, is impossible. A step takes frames x
// columns multiplications a row; a row 40 bytes a frame, twice, and 8 a column.
class CtcPrefixScorer final : public RowScorer {
 public:
  // end_tokens: ascending. Their CTC columns are ignored.
  CtcPrefixScorer(CtcFrames frames, std::vector<int32_t> end_tokens);

  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) override;
  void Score(int row, absl::Span<float> log_probs) override;

  static int64_t NumBytes(int64_t num_frames, int64_t num_columns, int64_t num_rows) {
    return num_frames * num_columns * 4 + num_rows * (num_frames * 80 + num_columns * 8);
  }

 private:
  // Logarithms; index t is behind t frames.
  struct Row {
    std::vector<double> ends_in_token;  // [num_frames + 1]
    std::vector<double> ends_in_blank;
    double prefix = 0;  // log psi
    int32_t last = -1;
  };
  // Of Score, one per row.
  struct Scratch {
    std::vector<double> sums;  // [num_columns]
  };

  bool HasColumn(int32_t token) const;
  void Extend(const Row& parent, int32_t token, Row& child) const;
  const float* Frame(size_t frame) const {
    return frames_.probs.data() + frame * static_cast<size_t>(frames_.num_columns);
  }

  CtcFrames frames_;
  std::vector<int32_t> end_tokens_;
  std::vector<Row> rows_;  // the first of them are live; the others keep their memory
  std::vector<Row> next_rows_;
  std::vector<Scratch> scratch_;
};

// Scorers that look at the words of an answer behind a search over letters or pieces of words: a
// lexicon, a count of words, and an n-gram model of words.

// WordTree: words as a tree of their bytes, walked while a search writes text; WordTokens: what
// each of its tokens writes.

// What tokens write, and which of them end an answer.
struct WordTokens {
  std::vector<std::string> surfaces;  // by token; a space begins or ends a word; empty: no text
  std::vector<int32_t> ends;

  bool IsEnd(int32_t token) const {
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  }
};

// Immutable and thread-safe. About 30 bytes a letter.
class WordTree {
 public:
  static constexpr int32_t kRoot = 0;       // between words
  static constexpr int32_t kUnlisted = -1;  // no word begins so

  // Word i is number i; of equal words the last counts.
  explicit WordTree(absl::Span<const std::string> words);

  // One byte further; kUnlisted stays so.
  int32_t Child(int32_t node, char letter) const;
  // The word that ends there; -1: none does.
  int32_t WordAt(int32_t node) const {
    return node == kUnlisted ? -1 : word_of_[static_cast<size_t>(node)];
  }
  int32_t num_nodes() const { return static_cast<int32_t>(word_of_.size()); }
  int64_t num_bytes() const { return static_cast<int64_t>(word_of_.size()) * 30; }

 private:
  absl::flat_hash_map<uint64_t, int32_t> children_;  // by node and letter
  std::vector<int32_t> word_of_;                     // by node
};

// Scorers that look at the words of an answer and need no model of them, behind a search over
// letters or pieces of words: a lexicon that admits its words alone, and a count of words, which a
// weight makes a reward for each (pyctcdecode's beta, flashlight-text's word score).

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

using NgramScorer = ModelScorer<NgramModel>;
using WordNgramScorer = ModelScorer<WordNgram>;

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_ROW_SCORERS_H_
