#include "engine/fusion/word_ngram.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace beamwright::fusion {

WordNgram::WordNgram(std::shared_ptr<const NgramModel> model, absl::Span<const std::string> words,
                     WordTokens tokens)
    : model_(std::move(model)),
      tokens_(std::move(tokens)),
      unknown_(static_cast<int32_t>(words.size())) {
  const std::vector<float> most = model_->MostOfTokens();
  most_unknown_ = double{most[words.size()]} - kUnknownWordPenalty;
  word_of_.push_back(-1);
  // Any beginning of a word may turn out to be an unknown one.
  most_.push_back(static_cast<float>(most_unknown_));
  for (size_t word = 0; word < words.size(); ++word) {
    int32_t node = kRoot;
    for (const char letter : words[word]) {
      const uint64_t key = (static_cast<uint64_t>(node) << 8) | static_cast<unsigned char>(letter);
      const auto [child, is_new] =
          children_.try_emplace(key, static_cast<int32_t>(word_of_.size()));
      node = child->second;
      if (is_new) {
        word_of_.push_back(-1);
        most_.push_back(static_cast<float>(most_unknown_));
      }
      most_[static_cast<size_t>(node)] = std::max(most_[static_cast<size_t>(node)], most[word]);
    }
    word_of_[static_cast<size_t>(node)] = static_cast<int32_t>(word);
  }
}

int32_t WordNgram::Child(int32_t node, char letter) const {
  if (node == kUnlisted) {
    return kUnlisted;
  }
  const auto found =
      children_.find((static_cast<uint64_t>(node) << 8) | static_cast<unsigned char>(letter));
  return found == children_.end() ? kUnlisted : found->second;
}

double WordNgram::Charged(int32_t node) const {
  return node == kRoot       ? 0
         : node == kUnlisted ? most_unknown_
                             : double{most_[static_cast<size_t>(node)]};
}

bool WordNgram::IsEnd(int32_t token) const {
  return std::find(tokens_.ends.begin(), tokens_.ends.end(), token) != tokens_.ends.end();
}

void WordNgram::EndWord(Place& place) const {
  if (place.node == kRoot) {
    return;
  }
  const int32_t listed = place.node == kUnlisted ? -1 : word_of_[static_cast<size_t>(place.node)];
  const int32_t word = listed >= 0 ? listed : unknown_;
  place.gain += double{model_->LogProb(place.history, word)} -
                (listed >= 0 ? 0 : kUnknownWordPenalty) - Charged(place.node);
  place.history = model_->Next(place.history, word);
  place.node = kRoot;
}

WordNgram::Place WordNgram::Walk(State state, int32_t token) const {
  Place place = Unpack(state);
  for (const char letter : tokens_.surfaces[static_cast<size_t>(token)]) {
    if (letter == ' ') {
      EndWord(place);
      continue;
    }
    const int32_t child = Child(place.node, letter);
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
  return IsEnd(token) ? LogProbOfEnd(state)
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

int64_t WordNgram::num_bytes() const {
  return model_->num_bytes() + static_cast<int64_t>(word_of_.size()) * 30;
}

void WordNgramScorer::Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) {
  next_states_.clear();
  for (size_t row = 0; row < parents.size(); ++row) {
    next_states_.push_back(model_->Next(states_[static_cast<size_t>(parents[row])], tokens[row]));
  }
  states_.swap(next_states_);
}

}  // namespace beamwright::fusion
