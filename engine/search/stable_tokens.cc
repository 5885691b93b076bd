#include "engine/search/stable_tokens.h"

#include <algorithm>

namespace beamwright::search {

std::vector<int32_t> StableTokens::CommonTokens(const SlotHistory& history,
                                                const std::vector<BeamSearch::Head>& heads,
                                                int sample, int known) {
  // Walks all paths back together, the longest first; a step where they disagree undoes what was
  // common behind it. So does the last step of a path that others outlast: it chose an end token
  // there, and they did not.
  int last = 0;
  for (const BeamSearch::Head& head : heads) {
    if (head.sample == sample) {
      last = std::max(last, head.length);
    }
  }
  std::vector<int> slots;
  std::vector<int32_t> backwards;
  for (int step = last - 1; step >= known; --step) {
    for (int& slot : slots) {
      slot = history.slot_parent(step + 1, slot);
    }
    for (const BeamSearch::Head& head : heads) {
      if (head.sample == sample && head.length == step + 1) {
        slots.push_back(head.slot);
      }
    }
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    const int32_t token = history.token(step, slots.front());
    const bool is_common = std::all_of(
        slots.begin(), slots.end(), [&](int slot) { return history.token(step, slot) == token; });
    if (is_common) {
      backwards.push_back(token);
    } else {
      backwards.clear();
    }
  }
  return {backwards.rbegin(), backwards.rend()};
}

std::vector<StableTokens::Piece> StableTokens::Update(const BeamSearch& search) {
  search.ListHeads(heads_);
  std::vector<Piece> pieces;
  size_t num_samples = 0;
  for (const BeamSearch::Head& head : heads_) {
    num_samples = std::max(num_samples, static_cast<size_t>(head.sample) + 1);
  }
  num_stable_.resize(std::max(num_stable_.size(), num_samples), 0);
  for (size_t sample = 0; sample < num_samples; ++sample) {
    int& known = num_stable_[sample];
    Piece piece{static_cast<int>(sample), known, {}};
    piece.tokens = CommonTokens(search.history(), heads_, piece.sample, known);
    if (!piece.tokens.empty()) {
      known += static_cast<int>(piece.tokens.size());
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

std::vector<int32_t> BestTokensSoFar(const BeamSearch& search, BeamSearch::Head& best) {
  std::vector<BeamSearch::Head> heads;
  search.ListHeads(heads);
  best = {};
  for (const BeamSearch::Head& head : heads) {
    if (best.length == 0 || head.key > best.key) {
      best = head;
    }
  }
  std::vector<int32_t> tokens(static_cast<size_t>(best.length));
  int slot = best.slot;
  for (int step = best.length - 1; step >= 0; --step) {
    tokens[static_cast<size_t>(step)] = search.history().token(step, slot);
    slot = search.history().slot_parent(step, slot);
  }
  return tokens;
}

}  // namespace beamwright::search
