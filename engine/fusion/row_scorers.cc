// Scores beginnings of texts by CTC, for joint decoding with attention (Watanabe et al. 2017): the
// probability that the frames spell the row's tokens followed by anything.
//
// 1. A row keeps, for each number of frames t, the log-probability that the first t frames are its
//    tokens, ending in the last token (ends_in_token) or in a blank (ends_in_blank).
// 2. Extend computes them for one more token. The token may start at frame t after all paths of the
//    parent; if it equals the parent's last token only after those that end in a blank, since
//    otherwise CTC would read both as one.
// 3. Score sums over frames for all tokens at once: paths before frame t times the token's
//    probability there. It divides by the row's own prefix probability, so that scores are
//    conditional. End tokens get the probability of exactly the row's text.
//
// Then the scorers that look at the words of an answer.
#include "engine/fusion/row_scorers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/base/vector_isa.h"

namespace beamwright::fusion {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double LogAdd(double a, double b) {
  if (a < b) {
    std::swap(a, b);
  }
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

}  // namespace

CtcPrefixScorer::CtcPrefixScorer(CtcFrames frames, std::vector<int32_t> end_tokens)
    : frames_(std::move(frames)), end_tokens_(std::move(end_tokens)), rows_(1), scratch_(1) {
  const size_t num_frames = frames_.num_frames();
  Row& empty = rows_[0];
  empty.ends_in_token.assign(num_frames + 1, kNever);
  empty.ends_in_blank.assign(num_frames + 1, 0);
  for (size_t t = 1; t <= num_frames; ++t) {
    empty.ends_in_blank[t] =
        empty.ends_in_blank[t - 1] + std::log(static_cast<double>(Frame(t - 1)[frames_.blank]));
  }
}

bool CtcPrefixScorer::HasColumn(int32_t token) const {
  return token < frames_.num_columns && token != frames_.blank;
}

void CtcPrefixScorer::Extend(const Row& parent, int32_t token, Row& child) const {
  const size_t num_frames = frames_.num_frames();
  child.ends_in_token.assign(num_frames + 1, kNever);
  child.ends_in_blank.assign(num_frames + 1, kNever);
  child.prefix = kNever;
  child.last = token;
  if (!HasColumn(token)) {
    return;
  }
  for (size_t t = 1; t <= num_frames; ++t) {
    const double log_prob = std::log(static_cast<double>(Frame(t - 1)[token]));
    const double blank = std::log(static_cast<double>(Frame(t - 1)[frames_.blank]));
    const double starts = token == parent.last
                              ? parent.ends_in_blank[t - 1]
                              : LogAdd(parent.ends_in_blank[t - 1], parent.ends_in_token[t - 1]);
    child.prefix = LogAdd(child.prefix, starts + log_prob);
    child.ends_in_token[t] = LogAdd(child.ends_in_token[t - 1], starts) + log_prob;
    child.ends_in_blank[t] = LogAdd(child.ends_in_blank[t - 1], child.ends_in_token[t - 1]) + blank;
  }
}

void CtcPrefixScorer::Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) {
  next_rows_.resize(std::max(next_rows_.size(), parents.size()));
  for (size_t row = 0; row < parents.size(); ++row) {
    Extend(rows_[static_cast<size_t>(parents[row])], tokens[row], next_rows_[row]);
  }
  rows_.swap(next_rows_);
  scratch_.resize(std::max(scratch_.size(), parents.size()));
}

void CtcPrefixScorer::Score(int row, absl::Span<float> log_probs) {
  const Row& own = rows_[static_cast<size_t>(row)];
  const size_t num_frames = frames_.num_frames();
  const size_t num_columns = static_cast<size_t>(frames_.num_columns);
  std::vector<double>& sums = scratch_[static_cast<size_t>(row)].sums;
  sums.assign(num_columns, 0);
  double largest = kNever;
  for (size_t t = 0; t < num_frames; ++t) {
    largest = std::max({largest, own.ends_in_blank[t], own.ends_in_token[t]});
  }
  double again = 0;  // the sum of the row's last token, which must have a blank before it
  for (size_t t = 0; t < num_frames && largest > kNever; ++t) {
    const double blank = std::exp(own.ends_in_blank[t] - largest);
    const double both = blank + std::exp(own.ends_in_token[t] - largest);
    if (both == 0) {
      continue;
    }
    const float* const probs = Frame(t);
    double* const out = sums.data();
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t column = 0; column < num_columns; ++column) {
        out[column] += both * static_cast<double>(probs[column]);
      }
    });
    again +=
        HasColumn(own.last) && own.last >= 0 ? blank * static_cast<double>(probs[own.last]) : 0;
  }
  const auto conditional = [&](double log_prob) {
    return own.prefix == kNever || log_prob == kNever
               ? -std::numeric_limits<float>::infinity()
               : static_cast<float>(std::min(log_prob - own.prefix, 0.0));
  };
  std::fill(log_probs.begin(), log_probs.end(), -std::numeric_limits<float>::infinity());
  for (size_t token = 0; token < std::min(log_probs.size(), num_columns); ++token) {
    const auto id = static_cast<int32_t>(token);
    if (HasColumn(id)) {
      log_probs[token] = conditional(std::log(id == own.last ? again : sums[token]) + largest);
    }
  }
  const double whole = LogAdd(own.ends_in_blank.back(), own.ends_in_token.back());
  for (const int32_t token : end_tokens_) {
    log_probs[static_cast<size_t>(token)] = conditional(whole);
  }
}

// Scorers of words for models whose tokens are letters or parts of words: Lexicon (the words that
// are allowed), WordCount and WordNgram (a language model of words).
//
// A state holds where the word that is being written stands: a node of WordTree, a tree of the
// words' bytes, or kUnlisted once no word begins that way. A token is read byte by byte (Walk): a
// space ends a word, any other byte goes to a child. WordNgram's state also holds the history of
// whole words.
//
// WordNgram charges a word before it ends: each node knows the most that any word below it may get
// (most_), and Walk adds the differences of these bounds as it goes down. EndWord replaces the
// bound by the word's real log-probability. So the sum never rises when a word ends, and beams see
// a bad word early.

namespace {

uint64_t Key(int32_t node, char letter) {
  return (static_cast<uint64_t>(node) << 8) | static_cast<unsigned char>(letter);
}

}  // namespace

WordTree::WordTree(absl::Span<const std::string> words) : word_of_(1, -1) {
  for (size_t word = 0; word < words.size(); ++word) {
    int32_t node = kRoot;
    for (const char letter : words[word]) {
      const auto [child, is_new] = children_.try_emplace(Key(node, letter), num_nodes());
      node = child->second;
      if (is_new) {
        word_of_.push_back(-1);
      }
    }
    word_of_[static_cast<size_t>(node)] = static_cast<int32_t>(word);
  }
}

int32_t WordTree::Child(int32_t node, char letter) const {
  if (node == kUnlisted) {
    return kUnlisted;
  }
  const auto found = children_.find(Key(node, letter));
  return found == children_.end() ? kUnlisted : found->second;
}

namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

}  // namespace

// A word that is not listed makes its node kUnlisted, also where it has ended: what follows cannot
// mend it.
Lexicon::State Lexicon::Next(State state, int32_t token) const {
  auto node = static_cast<int32_t>(state);
  for (const char letter : tokens_.surfaces[static_cast<size_t>(token)]) {
    if (letter != ' ') {
      node = tree_.Child(node, letter);
    } else if (node != WordTree::kRoot) {
      node = tree_.WordAt(node) >= 0 ? WordTree::kRoot : WordTree::kUnlisted;
    }
  }
  return node;
}

float Lexicon::LogProb(State state, int32_t token) const {
  return tokens_.IsEnd(token)                        ? LogProbOfEnd(state)
         : Next(state, token) == WordTree::kUnlisted ? kRuledOut
                                                     : 0;
}

float Lexicon::LogProbOfEnd(State state) const {
  return state == WordTree::kRoot || tree_.WordAt(static_cast<int32_t>(state)) >= 0 ? 0 : kRuledOut;
}

void Lexicon::Score(State state, absl::Span<float> log_probs) const {
  for (size_t token = 0; token < log_probs.size(); ++token) {
    log_probs[token] = LogProb(state, static_cast<int32_t>(token));
  }
}

// State 1: inside a word. A word counts with its first letter.
std::pair<WordCount::State, int> WordCount::Walk(State state, int32_t token) const {
  int begun = 0;
  for (const char letter : tokens_.surfaces[static_cast<size_t>(token)]) {
    begun += letter != ' ' && state == 0 ? 1 : 0;
    state = letter != ' ' ? 1 : 0;
  }
  return {state, begun};
}

void WordCount::Score(State state, absl::Span<float> log_probs) const {
  for (size_t token = 0; token < log_probs.size(); ++token) {
    log_probs[token] = LogProb(state, static_cast<int32_t>(token));
  }
}

WordNgram::WordNgram(std::shared_ptr<const NgramModel> model, absl::Span<const std::string> words,
                     WordTokens tokens)
    : model_(std::move(model)),
      tokens_(std::move(tokens)),
      unknown_(static_cast<int32_t>(words.size())),
      tree_(words) {
  const std::vector<float> most = model_->MostOfTokens();
  most_unknown_ = double{most[words.size()]} - kUnknownWordPenalty;
  // Any beginning of a word may turn out to be an unknown one.
  most_.assign(static_cast<size_t>(tree_.num_nodes()), static_cast<float>(most_unknown_));
  for (size_t word = 0; word < words.size(); ++word) {
    int32_t node = WordTree::kRoot;
    for (const char letter : words[word]) {
      node = tree_.Child(node, letter);
      most_[static_cast<size_t>(node)] = std::max(most_[static_cast<size_t>(node)], most[word]);
    }
  }
}

double WordNgram::Charged(int32_t node) const {
  return node == WordTree::kRoot       ? 0
         : node == WordTree::kUnlisted ? most_unknown_
                                       : double{most_[static_cast<size_t>(node)]};
}

// The word is known now: what it was charged until here is replaced by its log-probability.
void WordNgram::EndWord(Place& place) const {
  if (place.node == WordTree::kRoot) {
    return;
  }
  const int32_t listed = tree_.WordAt(place.node);
  const int32_t word = listed >= 0 ? listed : unknown_;
  place.gain += double{model_->LogProb(place.history, word)} -
                (listed >= 0 ? 0 : kUnknownWordPenalty) - Charged(place.node);
  place.history = model_->Next(place.history, word);
  place.node = WordTree::kRoot;
}

WordNgram::Place WordNgram::Walk(State state, int32_t token) const {
  Place place = Unpack(state);
  for (const char letter : tokens_.surfaces[static_cast<size_t>(token)]) {
    if (letter == ' ') {
      EndWord(place);
      continue;
    }
    const int32_t child = tree_.Child(place.node, letter);
    place.gain += Charged(child) - Charged(place.node);
    place.node = child;
  }
  return place;
}

WordNgram::State WordNgram::Next(State state, int32_t token) const {
  const Place place = Walk(state, token);
  return Pack(place.history, place.node);
}

float WordNgram::LogProb(State state, int32_t token) const {
  return tokens_.IsEnd(token) ? LogProbOfEnd(state)
                              : static_cast<float>(std::min(Walk(state, token).gain, 0.0));
}

float WordNgram::LogProbOfEnd(State state) const {
  Place place = Unpack(state);
  EndWord(place);
  return static_cast<float>(
      std::min(place.gain + double{model_->LogProbOfEnd(place.history)}, 0.0));
}

void WordNgram::Score(State state, absl::Span<float> log_probs) const {
  for (size_t token = 0; token < log_probs.size(); ++token) {
    log_probs[token] = LogProb(state, static_cast<int32_t>(token));
  }
}

int64_t WordNgram::num_bytes() const { return model_->num_bytes() + tree_.num_bytes(); }

}  // namespace beamwright::fusion
