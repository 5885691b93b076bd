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
#include "engine/search/processors.h"

#include <algorithm>
#include <utility>

#include "engine/search/constraint_processors.h"
#include "engine/search/lexical_constraints.h"
#include "engine/search/shared_hotwords.h"
#include "engine/search/timestamps.h"

namespace beamwright::search {
namespace {

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
