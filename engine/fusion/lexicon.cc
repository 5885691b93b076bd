#include "engine/fusion/lexicon.h"

#include <limits>

namespace beamwright::fusion {
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

}  // namespace beamwright::fusion
