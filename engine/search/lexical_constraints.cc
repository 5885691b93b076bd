#include "engine/search/lexical_constraints.h"

#include <algorithm>
#include <utility>

namespace beamwright::search {

LexicalConstraints::LexicalConstraints(std::vector<TokenSequence> sequences, bool in_order,
                                       std::vector<int32_t> end_tokens)
    : sequences_(std::move(sequences)), in_order_(in_order), end_tokens_(std::move(end_tokens)) {
  for (const TokenSequence& sequence : sequences_) {
    total_ += static_cast<int>(sequence.size());
  }
}

LexicalConstraints::Progress LexicalConstraints::Unpack(int64_t state) {
  return {static_cast<uint32_t>(state), static_cast<size_t>((state >> 32) & 0xff),
          static_cast<size_t>((state >> 40) & 0xffff)};
}

int64_t LexicalConstraints::Pack(const Progress& progress) {
  return static_cast<int64_t>(progress.done) | static_cast<int64_t>(progress.current) << 32 |
         static_cast<int64_t>(progress.matched) << 40;
}

bool LexicalConstraints::IsOpen(size_t i, const Progress& progress) const {
  if ((progress.done >> i & 1u) != 0) {
    return false;
  }
  // In order: all before it are done, that is, the bits below i are ones.
  return !in_order_ || progress.done == (uint32_t{1} << i) - 1;
}

bool LexicalConstraints::Extend(int32_t token, size_t matched, Progress& progress) const {
  const size_t none = sequences_.size();
  size_t found = none;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const TokenSequence& sequence = sequences_[i];
    if (IsOpen(i, progress) && matched < sequence.size() && sequence[matched] == token &&
        std::equal(sequence.begin(), sequence.begin() + static_cast<int64_t>(matched),
                   sequences_[progress.current].begin())) {
      if (sequence.size() == matched + 1) {
        progress = {progress.done | uint32_t{1} << i, 0, 0};
        return true;
      }
      found = std::min(found, i);
    }
  }
  if (found == none) {
    return false;
  }
  progress.current = found;
  progress.matched = matched + 1;
  return true;
}

int64_t LexicalConstraints::Next(int64_t state, int32_t token) const {
  Progress progress = Unpack(state);
  if (!Extend(token, progress.matched, progress) &&
      (progress.matched == 0 || !Extend(token, 0, progress))) {
    progress.current = 0;
    progress.matched = 0;
  }
  return Pack(progress);
}

int LexicalConstraints::Bank(int64_t state) const {
  const Progress progress = Unpack(state);
  int bank = static_cast<int>(progress.matched);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    bank += (progress.done >> i & 1u) != 0 ? static_cast<int>(sequences_[i].size()) : 0;
  }
  return bank;
}

void LexicalConstraints::Apply(const RowView& row, RuleBuffer& rules) const {
  for (size_t i = 0; Bank(row.state) < total_ && i < end_tokens_.size(); ++i) {
    rules.Ban(end_tokens_[i]);
  }
}

void LexicalConstraints::AddBankTokens(int64_t state, std::vector<int32_t>& tokens) const {
  const Progress progress = Unpack(state);
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const TokenSequence& sequence = sequences_[i];
    if (!IsOpen(i, progress)) {
      continue;
    }
    tokens.push_back(sequence[0]);
    if (progress.matched > 0 && progress.matched < sequence.size()) {
      tokens.push_back(sequence[progress.matched]);
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

}  // namespace beamwright::search
