// A back-off n-gram language model of words, asked by tokens. For a word w after the history h:
//
//   log p(w | h) = listed(h w)                          if the n-gram h w is listed
//                = backoff(h) + log p(w | shorter h)    else; h without its first word
//
// The n-grams form a tree: a node is an n-gram, its children are the n-grams that continue it by a
// word. A state is the node of the longest listed history.
//
// 1. Build sorts the n-grams by length, then by words. Node n is n-gram n - 1; the children of a
//    node are neighbours, so that a node needs the number of its first child only, and a binary
//    search finds a child (Child). 20 bytes a node, no pointers.
// 2. Link gives each node its suffix: the node of its words without the first one, or fewer, which
//    is where back-off leads.
// 3. MapTokens: a token is a word of the file, or an end token (</s>), or unknown (<unk>).
//
// Next follows a token from a state: the child, else the child of the suffix, and so on. Score
// computes the log-probabilities of all tokens: it writes the unigrams for all of them with the sum
// of all back-offs, then the n-grams of each longer history over them, shortest first; so a step
// costs one pass over the vocabulary and the children of a few nodes, rather than a search per
// token.
//
// Files have decimal logarithms; results are natural ones.
#include "engine/fusion/ngram_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/base/status.h"
#include "ops/base/vector_isa.h"

namespace beamwright::fusion {
namespace {

bool Before(const Ngram& a, const Ngram& b) {
  return a.words.size() != b.words.size() ? a.words.size() < b.words.size() : a.words < b.words;
}

// The n-grams in flat arrays, by node.
class ListedNgrams final : public NgramModel {
 public:
  explicit ListedNgrams(const NgramVocabulary& vocabulary) : vocabulary_(vocabulary) {}
  absl::Status Build(std::vector<Ngram> ngrams);

  State Start() const override { return start_; }
  State Next(State state, int32_t token) const override;
  void Score(State state, absl::Span<float> log_probs) const override;
  float LogProb(State state, int32_t token) const override;
  float LogProbOfEnd(State state) const override;
  std::vector<float> MostOfTokens() const override;
  int order() const override { return static_cast<int>(level_starts_.size()) - 2; }
  int64_t num_ngrams() const override { return static_cast<int64_t>(words_.size()) - 1; }
  int64_t num_bytes() const override;

 private:
  static constexpr State kRoot = 0;
  static constexpr State kNone = -1;

  int32_t WordOf(int32_t token) const { return word_of_token_[static_cast<size_t>(token)]; }
  State Child(State node, int32_t word) const;
  // log p(word | state); log10_unigram: where no longer n-gram is listed.
  float LogProbOfWord(State state, int32_t word, float log10_unigram) const;
  // The longest proper suffix of a node's words that is a node; kNone of the root.
  void Link(absl::Span<const Ngram> ngrams);
  void MapTokens();
  // The tokens that stand for a word: one, several (unknown words, ends), or an empty list.
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

absl::Status ListedNgrams::Build(std::vector<Ngram> ngrams) {
  for (const Ngram& ngram : ngrams) {
    if (ngram.words.empty() || ngram.words.size() > kMaxOrder) {
      return Invalid("line ", ngram.line, ": an n-gram of ", ngram.words.size(), " words; 1 to ",
                     kMaxOrder, " are allowed");
    }
  }
  // By length and then by words: nodes of one context stand together, and contexts in the order in
  // which the level above has them.
  std::sort(ngrams.begin(), ngrams.end(), Before);
  const size_t count = ngrams.size();
  words_.reserve(count + 1);
  words_.push_back(kNone);
  log10_probs_.push_back(0);
  log10_backoffs_.push_back(0);
  first_child_.assign(1, 1);
  level_starts_ = {0, 1};
  size_t parent = 0;  // node that the next children belong to
  for (size_t i = 0; i < count; ++i) {
    const Ngram& ngram = ngrams[i];
    if (i > 0 && ngram.words == ngrams[i - 1].words) {
      return Invalid("line ", std::max(ngram.line, ngrams[i - 1].line), ": the n-gram is in line ",
                     std::min(ngram.line, ngrams[i - 1].line), " already");
    }
    if (i > 0 && ngram.words.size() > ngrams[i - 1].words.size()) {
      level_starts_.push_back(static_cast<State>(i + 1));
    }
    const absl::Span<const int32_t> context(ngram.words.data(), ngram.words.size() - 1);
    // Node n is ngrams[n - 1]; both run through contexts in ascending order.
    while (parent < i && (parent == 0 ? !context.empty() : ngrams[parent - 1].words != context)) {
      first_child_.push_back(static_cast<State>(i + 1));
      ++parent;
    }
    if (parent == 0 ? !context.empty() : ngrams[parent - 1].words != context) {
      return Invalid("line ", ngram.line, ": the n-gram's first ", context.size(),
                     " words are not listed as an n-gram");
    }
    words_.push_back(ngram.words.back());
    log10_probs_.push_back(ngram.log10_prob);
    log10_backoffs_.push_back(ngram.log10_backoff);
  }
  first_child_.resize(count + 2, static_cast<State>(count + 1));
  if (count > 0) {
    level_starts_.push_back(static_cast<State>(count + 1));
  }
  Link(ngrams);
  MapTokens();
  return absl::OkStatus();
}

void ListedNgrams::Link(absl::Span<const Ngram> ngrams) {
  suffixes_.assign(words_.size(), kNone);
  for (size_t i = 0; i < ngrams.size(); ++i) {
    absl::Span<const int32_t> words = ngrams[i].words;
    State found = kNone;
    while (found == kNone) {
      words.remove_prefix(1);
      found = kRoot;
      for (size_t k = 0; k < words.size() && found != kNone; ++k) {
        found = Child(found, words[k]);
      }
    }
    suffixes_[i + 1] = found;
  }
}

void ListedNgrams::MapTokens() {
  const auto num_tokens = static_cast<size_t>(vocabulary_.num_tokens);
  word_of_token_.resize(num_tokens);
  unigrams_.assign(num_tokens, kUnknownLog10Prob);
  for (size_t token = 0; token < num_tokens; ++token) {
    auto word = static_cast<int32_t>(token);
    const std::vector<int32_t>& ends = vocabulary_.end_tokens;
    if (std::find(ends.begin(), ends.end(), word) != ends.end()) {
      word = vocabulary_.end_word();
    } else if (Child(kRoot, word) == kNone) {
      word = vocabulary_.unknown_word();
      unknown_tokens_.push_back(static_cast<int32_t>(token));
    }
    word_of_token_[token] = word;
    if (const State unigram = Child(kRoot, word); unigram != kNone) {
      unigrams_[token] = log10_probs_[static_cast<size_t>(unigram)];
    }
  }
  const State begin = Child(kRoot, vocabulary_.begin_word());
  start_ = begin == kNone || order() == 1 ? kRoot : begin;
}

NgramModel::State ListedNgrams::Child(State node, int32_t word) const {
  const auto at = static_cast<size_t>(node);
  const auto first = words_.begin() + first_child_[at];
  const auto last = words_.begin() + first_child_[at + 1];
  const auto found = std::lower_bound(first, last, word);
  return found != last && *found == word ? static_cast<State>(found - words_.begin()) : kNone;
}

NgramModel::State ListedNgrams::Next(State state, int32_t token) const {
  const int32_t word = WordOf(token);
  for (; state != kNone; state = suffixes_[static_cast<size_t>(state)]) {
    const State next = Child(state, word);
    if (next != kNone) {
      // Nothing follows an n-gram of the highest order.
      const bool is_longest = next >= level_starts_[static_cast<size_t>(order())];
      return is_longest ? suffixes_[static_cast<size_t>(next)] : next;
    }
  }
  return kRoot;
}

absl::Span<const int32_t> ListedNgrams::TokensOf(const int32_t& word) const {
  if (word < vocabulary_.num_tokens) {
    return {&word, 1};
  }
  if (word == vocabulary_.end_word()) {
    return vocabulary_.end_tokens;
  }
  return word == vocabulary_.unknown_word() ? absl::MakeConstSpan(unknown_tokens_)
                                            : absl::Span<const int32_t>();
}

float ListedNgrams::LogProbOfWord(State state, int32_t word, float log10_unigram) const {
  double backoff = 0;
  for (; state != kRoot; state = suffixes_[static_cast<size_t>(state)]) {
    const State listed = Child(state, word);
    if (listed != kNone) {
      return NaturalLog(backoff + static_cast<double>(log10_probs_[static_cast<size_t>(listed)]));
    }
    backoff += static_cast<double>(log10_backoffs_[static_cast<size_t>(state)]);
  }
  return NaturalLog(backoff + static_cast<double>(log10_unigram));
}

float ListedNgrams::LogProb(State state, int32_t token) const {
  return LogProbOfWord(state, WordOf(token), unigrams_[static_cast<size_t>(token)]);
}

float ListedNgrams::LogProbOfEnd(State state) const {
  const State unigram = Child(kRoot, vocabulary_.end_word());
  return LogProbOfWord(
      state, vocabulary_.end_word(),
      unigram == kNone ? kUnknownLog10Prob : log10_probs_[static_cast<size_t>(unigram)]);
}

std::vector<float> ListedNgrams::MostOfTokens() const {
  // Some files have back-off weights above 0, which lift words that are not listed; a history has
  // one such weight per level.
  double lift = 0;
  for (size_t level = 1; level + 1 < level_starts_.size(); ++level) {
    float most = 0;
    for (State node = level_starts_[level]; node < level_starts_[level + 1]; ++node) {
      most = std::max(most, log10_backoffs_[static_cast<size_t>(node)]);
    }
    lift += static_cast<double>(most);
  }
  std::vector<float> log10s = unigrams_;
  for (size_t node = 1; node < words_.size(); ++node) {
    for (const int32_t token : TokensOf(words_[node])) {
      float& log10 = log10s[static_cast<size_t>(token)];
      log10 = std::max(log10, log10_probs_[node]);
    }
  }
  for (float& log10 : log10s) {
    log10 = NaturalLog(lift + static_cast<double>(log10));
  }
  return log10s;
}

void ListedNgrams::Score(State state, absl::Span<float> log_probs) const {
  // Longest history first, as the sum of back-offs is made; written shortest first, so that longer
  // n-grams stand over shorter ones.
  State histories[kMaxOrder];
  double backoffs[kMaxOrder];
  size_t count = 0;
  double backoff = 0;
  for (; state != kNone; state = suffixes_[static_cast<size_t>(state)]) {
    histories[count] = state;
    backoffs[count++] = backoff;
    backoff += static_cast<double>(log10_backoffs_[static_cast<size_t>(state)]);
  }
  const double base = backoffs[--count];  // of the root
  const float* const unigrams = unigrams_.data();
  float* const out = log_probs.data();
  const size_t num_tokens = log_probs.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t token = 0; token < num_tokens; ++token) {
      out[token] = NaturalLog(base + static_cast<double>(unigrams[token]));
    }
  });
  while (count-- > 0) {
    const auto at = static_cast<size_t>(histories[count]);
    for (State child = first_child_[at]; child < first_child_[at + 1]; ++child) {
      const auto i = static_cast<size_t>(child);
      const float log_prob = NaturalLog(backoffs[count] + static_cast<double>(log10_probs_[i]));
      for (const int32_t token : TokensOf(words_[i])) {
        out[token] = log_prob;
      }
    }
  }
}

int64_t ListedNgrams::num_bytes() const {
  return static_cast<int64_t>(words_.size()) * 20 + int64_t{vocabulary_.num_tokens} * 8;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const NgramModel>> NgramModel::Create(
    const NgramVocabulary& vocabulary, std::vector<Ngram> ngrams) {
  if (ngrams.size() >= static_cast<size_t>(std::numeric_limits<State>::max())) {
    return Invalid(ngrams.size(), " n-grams; at most ", std::numeric_limits<State>::max() - 1,
                   " are allowed");
  }
  const auto model = std::make_shared<ListedNgrams>(vocabulary);
  BW_RETURN_IF_ERROR(model->Build(std::move(ngrams)));
  return std::shared_ptr<const NgramModel>(model);
}

}  // namespace beamwright::fusion
