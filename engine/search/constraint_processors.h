// Processors that keep hypotheses inside a set of texts, or near one text. docs/decoding.md,
// 'Prefixes' and 'Closed lists'.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_CONSTRAINT_PROCESSORS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_CONSTRAINT_PROCESSORS_H_

#include <memory>
#include <utility>
#include <vector>

#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

// Hypotheses are entries of a trie. State: the trie's node.
class AllowedEntries final : public Processor {
 public:
  explicit AllowedEntries(std::shared_ptr<const TokenTrie> trie) : trie_(std::move(trie)) {}
  absl::string_view option() const override { return "allowed_sequences"; }
  int64_t Start() const override { return TokenTrie::kRoot; }
  int64_t Next(int64_t node, int32_t token) const override { return trie_->Child(node, token); }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    rules.Allow(trie_->Children(row.state));
  }
  bool MayBeCut(int64_t node) const override { return trie_->IsEntry(node); }

 private:
  std::shared_ptr<const TokenTrie> trie_;
};

// What hypotheses write behind the target prefix is a text of a grammar. State: the constraint's,
// and below 0 as long as the row reads the prefix.
class TextOfGrammar final : public Processor {
 public:
  TextOfGrammar(std::shared_ptr<const grammar::Constraint> constraint, size_t prefix)
      : texts_(std::make_unique<grammar::ConstrainedTexts>(std::move(constraint))),
        prefix_(static_cast<int64_t>(prefix)) {}
  absl::string_view option() const override { return texts_->option(); }
  int64_t Start() const override { return prefix_ > 0 ? -prefix_ : texts_->Start(true); }
  int64_t Next(int64_t state, int32_t token) const override {
    if (state < 0) {
      return state == -1 ? texts_->Start(false) : state + 1;
    }
    return texts_->Next(state, token);
  }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    std::vector<int32_t>& tokens = rules.NewSet();
    texts_->AppendAllowed(row.state, tokens);
    rules.Allow(tokens);
  }
  bool MayBeCut(int64_t state) const override { return state >= 0 && texts_->IsComplete(state); }

 private:
  std::unique_ptr<grammar::ConstrainedTexts> texts_;
  int64_t prefix_;
};

// Only these tokens, and the end tokens.
class Shortlist final : public Processor {
 public:
  Shortlist(std::vector<int32_t> tokens, const std::vector<int32_t>& end_tokens);
  absl::string_view option() const override { return "shortlist"; }
  bool depends_on_row() const override { return false; }
  void Apply(const RowView& /*row*/, RuleBuffer& rules) const override { rules.Allow(tokens_); }

 private:
  std::vector<int32_t> tokens_;  // ascending
};

// While a row has followed the preferred tokens: p' = (1 - weight) p + weight [token is the next of
// them]. The difference of logarithms is the row's reward, so that it stays out of the
// log-probabilities. State: how many tokens the row has followed, counted from -skip; kLeft once it
// has not.
class SoftPrefix final : public Processor {
 public:
  // skip: tokens of the hard prefix, which come first.
  SoftPrefix(TokenSequence tokens, double weight, int skip);
  absl::string_view option() const override { return "soft_prefix"; }
  int64_t Start() const override { return -skip_; }
  int64_t Next(int64_t state, int32_t token) const override;
  void Apply(const RowView& row, RuleBuffer& rules) const override;
  double Reward(int64_t state, int32_t token, float log_prob) const override;
  double RankOffset(int64_t state) const override { return IsOn(state) ? offset_ : 0; }
  bool gives_rewards() const override { return true; }

 private:
  static constexpr int64_t kLeft = int64_t{1} << 40;

  bool IsOn(int64_t state) const {
    return state >= 0 && state < static_cast<int64_t>(tokens_.size());
  }
  int32_t Preferred(int64_t state) const { return tokens_[static_cast<size_t>(state)]; }

  TokenSequence tokens_;
  double weight_;
  int64_t skip_;
  double offset_;  // log(1 - weight)
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_CONSTRAINT_PROCESSORS_H_
