#include "engine/search/bank_strategy.h"

#include <algorithm>

namespace beamwright::search {

int BankStrategy::candidates_per_row(const SearchOptions& options) const {
  return options.beam_size + static_cast<int>(options.end_tokens.size()) +
         2 * static_cast<int>(options.constraints.required.size());
}

void BankStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  for (size_t r = 0; r < step.rows().size(); ++r) {
    step.pipeline().AddBankTokens(static_cast<int>(r), step.rows()[r].watched);
  }
}

void BankStrategy::DealOut() {
  // A pair's turn is its place among those of the same bank; few banks are there at a time.
  bank_turns_.clear();
  turn_of_pair_.clear();
  for (const Pair& pair : pairs_) {
    auto it = std::find_if(bank_turns_.begin(), bank_turns_.end(),
                           [&](const auto& turn) { return turn.first == pair.bank; });
    if (it == bank_turns_.end()) {
      bank_turns_.push_back({pair.bank, 0});
      it = bank_turns_.end() - 1;
    }
    turn_of_pair_.push_back({it->second++, -pair.bank, static_cast<int>(turn_of_pair_.size())});
  }
  std::sort(turn_of_pair_.begin(), turn_of_pair_.end());
}

absl::Status BankStrategy::Choose(Step& step, Choice& choice) {
  if (!step.forced_end()) {  // else what was watched are the candidates already
    step.SetCandidates(watched_.Joined(step));
  }
  step.CollectPairs(-1, pairs_);
  for (Pair& pair : pairs_) {
    pair.bank = step.pipeline().BankAfter(pair.parent, pair.token);
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  DealOut();
  size_t next = 0;
  TakeBest(
      step, step.options().beam_size, 0,
      [&](Pair& pair) {
        if (next == turn_of_pair_.size()) {
          return false;
        }
        pair = pairs_[static_cast<size_t>(turn_of_pair_[next++][2])];
        return true;
      },
      choice);
  return absl::OkStatus();
}

}  // namespace beamwright::search
