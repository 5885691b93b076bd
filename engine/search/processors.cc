// The processors of a search: each is an option that bars tokens of a row or changes their scores.
// A processor has a state per row (Start, Next, for those that need it) and writes rules for the
// row's next step (Apply): bans, additions, a list of allowed tokens, a temperature. The scan
// applies the rules of all processors in one pass over the scores.
//
// MakeProcessors makes the chain of a request; an option that is off has no processor and costs
// nothing. They apply in the order of the chain: bias, repetition penalty, bans, constraints,
// temperature, stop strings.
//
// A processor that does not depend on the row (depends_on_row) is applied once for all rows.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/search/hotwords.h"
#include "engine/search/processor.h"
#include "engine/search/timestamps.h"

namespace beamwright::search {
namespace {

// Processors that keep hypotheses inside a set of texts, or near one text. docs/decoding.md,
// 'Prefixes' and 'Closed lists'.

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

Shortlist::Shortlist(std::vector<int32_t> tokens, const std::vector<int32_t>& end_tokens)
    : tokens_(std::move(tokens)) {
  tokens_.insert(tokens_.end(), end_tokens.begin(), end_tokens.end());
  std::sort(tokens_.begin(), tokens_.end());
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
}

SoftPrefix::SoftPrefix(TokenSequence tokens, double weight, int skip)
    : tokens_(std::move(tokens)), weight_(weight), skip_(skip), offset_(std::log1p(-weight)) {}

int64_t SoftPrefix::Next(int64_t state, int32_t token) const {
  if (state < 0 || (IsOn(state) && Preferred(state) == token)) {
    return state + 1;
  }
  return kLeft;
}

// All ranks of the row lack log(1 - weight) here, which RankOffset adds.
void SoftPrefix::Apply(const RowView& row, RuleBuffer& rules) const {
  if (IsOn(row.state)) {
    rules.AddMass(Preferred(row.state), static_cast<float>(weight_ / (1 - weight_)));
  }
}

double SoftPrefix::Reward(int64_t state, int32_t token, float log_prob) const {
  if (!IsOn(state)) {
    return 0;
  }
  if (Preferred(state) != token) {
    return offset_;
  }
  const double p = std::exp(static_cast<double>(log_prob));
  return std::log((1 - weight_) * p + weight_) - static_cast<double>(log_prob);
}

// LexicalConstraints: token sequences that every hypothesis must contain (Post and Vilar 2018,
// "Fast lexically constrained decoding with dynamic beam allocation"; Hu et al. 2019 for the
// bookkeeping). It reports to the search how much of them a row has met, its bank, and keeps end
// tokens away until that is all. How rows of different banks share the beam is docs/decoding.md,
// 'Required sequences'.
//
// Progress is exact but for one simplification: a token counts for one constraint only, and a
// constraint that breaks off starts again from its beginning, with the breaking token at most.

class LexicalConstraints final : public Processor {
 public:
  // 1 to kMaxConstraints sequences of 1 to kMaxConstraintLength tokens. in_order: the first before
  // the second and so on; else in any order.
  LexicalConstraints(std::vector<TokenSequence> sequences, bool in_order,
                     std::vector<int32_t> end_tokens);

  absl::string_view option() const override { return "required_sequences"; }
  int64_t Next(int64_t state, int32_t token) const override;
  void Apply(const RowView& row, RuleBuffer& rules) const override;
  bool MayBeCut(int64_t state) const override { return Bank(state) == total_; }
  int Bank(int64_t state) const override;
  void AddBankTokens(int64_t state, std::vector<int32_t>& tokens) const override;

 private:
  // What a state says: which sequences are complete, and how far into which one the row is.
  struct Progress {
    uint32_t done = 0;   // one bit a sequence
    size_t current = 0;  // with matched > 0: a sequence that is not done
    size_t matched = 0;  // its tokens, fewer than all
  };
  static Progress Unpack(int64_t state);
  static int64_t Pack(const Progress& progress);

  // Whether sequence i may be worked on now.
  bool IsOpen(size_t i, const Progress& progress) const;
  // Moves to the first open sequence that starts with the `matched` tokens of `current` and goes on
  // with `token`; false without one. A sequence that is complete with it is preferred.
  bool Extend(int32_t token, size_t matched, Progress& progress) const;

  std::vector<TokenSequence> sequences_;
  bool in_order_;
  std::vector<int32_t> end_tokens_;
  int total_ = 0;  // tokens of all sequences
};

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

using Tokens = std::vector<int32_t>;

class LogitBias final : public Processor {
 public:
  explicit LogitBias(std::vector<TokenBias> biases) : biases_(std::move(biases)) {}
  absl::string_view option() const override { return "logit_bias"; }
  bool depends_on_row() const override { return false; }
  void Apply(const RowView& /*row*/, RuleBuffer& rules) const override {
    for (const TokenBias& bias : biases_) {
      rules.Add(bias.token, bias.bias);
    }
  }

 private:
  std::vector<TokenBias> biases_;
};

// Ends a row when the text of its tokens after the target prefix completes a stop string. Its state
// is that of StopStrings; below 0, it counts the tokens of the prefix that are left.
class EndAtStrings final : public Processor {
 public:
  EndAtStrings(std::shared_ptr<const StopStrings> strings, size_t prefix)
      : strings_(std::move(strings)), prefix_(static_cast<int64_t>(prefix)) {}
  absl::string_view option() const override { return "stop_strings"; }
  int64_t Start() const override { return prefix_ > 0 ? -prefix_ : strings_->Start(true); }
  int64_t Next(int64_t state, int32_t token) const override {
    if (state < 0) {
      return state == -1 ? strings_->Start(false) : state + 1;
    }
    return strings_->Next(state, token);
  }
  void Apply(const RowView& /*row*/, RuleBuffer& /*rules*/) const override {}
  bool Stops(int64_t state) const override { return state >= 0 && StopStrings::Stops(state); }
  bool may_stop() const override { return true; }

 private:
  std::shared_ptr<const StopStrings> strings_;
  int64_t prefix_;
};

// Scales the score of each distinct token of the row: x < 0 ? x * r : x / r (Keskar et al. 2019,
// with the sign rule that transformers and CTranslate2 use).
class RepetitionPenalty final : public Processor {
 public:
  explicit RepetitionPenalty(double penalty) : penalty_(static_cast<float>(penalty)) {}
  absl::string_view option() const override { return "repetition_penalty"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    rules.ScaleBySign(row.tokens, penalty_);
  }

 private:
  float penalty_;
};

// Bans tokens that would complete an n-gram for the second time: those that followed an earlier
// occurrence of the row's last n - 1 tokens.
class NoRepeatNgram final : public Processor {
 public:
  explicit NoRepeatNgram(int size) : size_(static_cast<size_t>(size)) {}
  absl::string_view option() const override { return "no_repeat_ngram"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    const absl::Span<const int32_t> tokens = row.tokens;
    const size_t context = size_ - 1;
    for (size_t end = size_; end <= tokens.size(); ++end) {
      if (std::equal(tokens.end() - static_cast<int64_t>(context), tokens.end(),
                     tokens.begin() + static_cast<int64_t>(end - size_))) {
        rules.Ban(tokens[end - 1]);
      }
    }
  }

 private:
  size_t size_;
};

class SuppressTokens final : public Processor {
 public:
  explicit SuppressTokens(Tokens tokens) : tokens_(std::move(tokens)) {}
  absl::string_view option() const override { return "suppress_tokens"; }
  bool depends_on_row() const override { return false; }
  void Apply(const RowView& /*row*/, RuleBuffer& rules) const override {
    for (const int32_t token : tokens_) {
      rules.Ban(token);
    }
  }

 private:
  Tokens tokens_;
};

class SuppressAtBegin final : public Processor {
 public:
  explicit SuppressAtBegin(Tokens tokens) : tokens_(std::move(tokens)) {}
  absl::string_view option() const override { return "suppress_at_begin"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    for (size_t i = 0; row.num_generated == 0 && i < tokens_.size(); ++i) {
      rules.Ban(tokens_[i]);
    }
  }

 private:
  Tokens tokens_;
};

// Bans a sequence's last token where the row ends with the others.
class SuppressSequences final : public Processor {
 public:
  explicit SuppressSequences(std::vector<TokenSequence> sequences)
      : sequences_(std::move(sequences)) {}
  absl::string_view option() const override { return "suppress_sequences"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    for (const TokenSequence& sequence : sequences_) {
      const size_t context = sequence.size() - 1;
      if (context <= row.tokens.size() &&
          std::equal(sequence.begin(), sequence.end() - 1,
                     row.tokens.end() - static_cast<int64_t>(context))) {
        rules.Ban(sequence.back());
      }
    }
  }

 private:
  std::vector<TokenSequence> sequences_;
};

class MinLength final : public Processor {
 public:
  MinLength(int min_length, Tokens end_tokens)
      : min_length_(min_length), end_tokens_(std::move(end_tokens)) {}
  absl::string_view option() const override { return "min_length"; }
  void Apply(const RowView& row, RuleBuffer& rules) const override {
    for (size_t i = 0; row.num_generated < min_length_ && i < end_tokens_.size(); ++i) {
      rules.Ban(end_tokens_[i]);
    }
  }

 private:
  int min_length_;
  Tokens end_tokens_;
};

class Temperature final : public Processor {
 public:
  explicit Temperature(double temperature) : temperature_(static_cast<float>(temperature)) {}
  absl::string_view option() const override { return "temperature"; }
  bool depends_on_row() const override { return false; }
  void Apply(const RowView& /*row*/, RuleBuffer& rules) const override {
    rules.SetTemperature(temperature_);
  }

 private:
  float temperature_;
};

using Chain = std::vector<std::unique_ptr<const Processor>>;

void AddConstraints(const SearchOptions& options, Chain& chain) {
  const ConstraintOptions& wanted = options.constraints;
  if (!wanted.shortlist.empty()) {
    chain.push_back(std::make_unique<Shortlist>(wanted.shortlist, options.end_tokens));
  }
  if (wanted.allowed != nullptr) {
    chain.push_back(std::make_unique<AllowedEntries>(wanted.allowed));
  }
  if (wanted.text != nullptr) {
    chain.push_back(std::make_unique<TextOfGrammar>(wanted.text, wanted.prefix.size()));
  }
  if (!wanted.required.empty()) {
    chain.push_back(std::make_unique<LexicalConstraints>(wanted.required, wanted.required_in_order,
                                                         options.end_tokens));
  }
  if (!wanted.soft_prefix.empty()) {
    chain.push_back(std::make_unique<SoftPrefix>(wanted.soft_prefix, wanted.soft_prefix_weight,
                                                 static_cast<int>(wanted.prefix.size())));
  }
  if (!wanted.hotwords.empty()) {
    chain.push_back(SharedHotwords(wanted.hotwords));
  }
}

}  // namespace

std::vector<std::unique_ptr<const Processor>> MakeProcessors(const SearchOptions& options) {
  const ProcessorOptions& wanted = options.processors;
  Chain chain;
  if (!wanted.logit_bias.empty()) {
    chain.push_back(std::make_unique<LogitBias>(wanted.logit_bias));
  }
  if (wanted.repetition_penalty != 1) {
    chain.push_back(std::make_unique<RepetitionPenalty>(wanted.repetition_penalty));
  }
  if (wanted.no_repeat_ngram > 0) {
    chain.push_back(std::make_unique<NoRepeatNgram>(wanted.no_repeat_ngram));
  }
  if (!wanted.suppressed.empty()) {
    chain.push_back(std::make_unique<SuppressTokens>(wanted.suppressed));
  }
  if (!wanted.suppressed_at_begin.empty()) {
    chain.push_back(std::make_unique<SuppressAtBegin>(wanted.suppressed_at_begin));
  }
  if (!wanted.suppressed_sequences.empty()) {
    chain.push_back(std::make_unique<SuppressSequences>(wanted.suppressed_sequences));
  }
  if (wanted.min_length > 0) {
    chain.push_back(std::make_unique<MinLength>(wanted.min_length, options.end_tokens));
  }
  if (wanted.first_timestamp >= 0) {
    const auto end = std::min_element(options.end_tokens.begin(), options.end_tokens.end());
    chain.push_back(std::make_unique<Timestamps>(
        wanted.first_timestamp, options.vocabulary_size,
        end == options.end_tokens.end() ? wanted.first_timestamp : *end));
  }
  AddConstraints(options, chain);
  if (wanted.temperature != 1) {
    chain.push_back(std::make_unique<Temperature>(wanted.temperature));
  }
  if (options.stop_strings != nullptr) {
    chain.push_back(
        std::make_unique<EndAtStrings>(options.stop_strings, options.constraints.prefix.size()));
  }
  return chain;
}

}  // namespace beamwright::search
