#include "tests/engine/search/naive_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace beamwright::search_testing {
namespace {

bool Contains(const Tokens& tokens, int32_t token) {
  return std::count(tokens.begin(), tokens.end(), token) > 0;
}

bool StartsWith(const Tokens& tokens, const Tokens& beginning) {
  return tokens.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

bool EndsWith(const Tokens& tokens, const Tokens& ending) {
  return tokens.size() >= ending.size() &&
         std::equal(ending.rbegin(), ending.rend(), tokens.rbegin());
}

}  // namespace

Tokens With(Tokens tokens, int32_t token) {
  tokens.push_back(token);
  return tokens;
}

bool NaiveRules::Ends(int32_t token) const { return Contains(options_.end_tokens, token); }

int NaiveRules::Bank(const Tokens& tokens) const {
  const std::vector<Tokens>& required = options_.constraints.required;
  std::vector<bool> done(required.size(), false);
  Tokens partial;
  int bank = 0;
  const auto advance = [&](const Tokens& wanted) {
    bool longer = false;
    for (size_t i = 0; i < required.size(); ++i) {
      if (!done[i] && required[i] == wanted) {
        done[i] = true;
        bank += static_cast<int>(wanted.size());
        partial.clear();
        return true;
      }
      longer = longer || (!done[i] && StartsWith(required[i], wanted));
      if (!done[i] && options_.constraints.required_in_order) {
        break;  // the next one must wait for this one
      }
    }
    if (longer) {
      partial = wanted;
    }
    return longer;
  };
  for (const int32_t token : tokens) {
    if (!advance(With(partial, token))) {
      partial.clear();
      advance({token});
    }
  }
  return bank + static_cast<int>(partial.size());
}

int NaiveRules::TotalRequired() const {
  size_t total = 0;
  for (const Tokens& sequence : options_.constraints.required) {
    total += sequence.size();
  }
  return static_cast<int>(total);
}

bool NaiveRules::EntryMayGoOn(const Tokens& tokens, int32_t token) const {
  if (request_.entries.empty()) {
    return true;
  }
  const Tokens next = With(tokens, token);
  return std::any_of(request_.entries.begin(), request_.entries.end(), [&](const Tokens& entry) {
    return StartsWith(entry, next) || (entry == tokens && Ends(token));
  });
}

bool NaiveRules::IsEntry(const Tokens& tokens) const {
  const auto& entries = request_.entries;
  return entries.empty() || std::count(entries.begin(), entries.end(), tokens) > 0;
}

namespace {

bool Admits(absl::string_view text, const std::vector<std::string>& units, bool whole) {
  return text.empty() || std::any_of(units.begin(), units.end(), [&](const std::string& unit) {
           return (!whole && absl::StartsWith(unit, text)) ||
                  (absl::StartsWith(text, unit) && Admits(text.substr(unit.size()), units, whole));
         });
}

}  // namespace

bool NaiveRules::IsOfGrammar(const Tokens& tokens, bool whole) const {
  if (request_.units.empty()) {
    return true;
  }
  std::string text;
  for (size_t i = options_.constraints.prefix.size(); i < tokens.size(); ++i) {
    const std::string& written = request_.writes[static_cast<size_t>(tokens[i])];
    if (written.empty()) {
      return false;
    }
    text += written;
  }
  return Admits(text, request_.units, whole);
}

// Whether `token` must not follow `tokens`. An n-gram that a prefix repeats by itself is not the
// search's doing: only the new one counts.
bool NaiveRules::Forbidden(const Tokens& tokens, int num_generated, int32_t token) const {
  const search::ProcessorOptions& p = options_.processors;
  const Tokens next = With(tokens, token);
  const size_t n = static_cast<size_t>(p.no_repeat_ngram);
  if (n > 0 && next.size() > n) {
    const Tokens gram(next.end() - static_cast<int64_t>(n), next.end());
    if (std::search(next.begin(), next.end() - 1, gram.begin(), gram.end()) != next.end() - 1) {
      return true;
    }
  }
  for (const Tokens& sequence : p.suppressed_sequences) {
    if (EndsWith(next, sequence)) {
      return true;
    }
  }
  const Tokens& shortlist = options_.constraints.shortlist;
  return Contains(options_.banned_tokens, token) || Contains(p.suppressed, token) ||
         (num_generated == 0 && Contains(p.suppressed_at_begin, token)) ||
         (num_generated < p.min_length && Ends(token)) || !EntryMayGoOn(tokens, token) ||
         !IsOfGrammar(Ends(token) ? tokens : next, /*whole=*/Ends(token)) ||
         (!shortlist.empty() && !Contains(shortlist, token) && !Ends(token)) ||
         (Ends(token) && Bank(tokens) < TotalRequired());
}

std::vector<float> NaiveRules::Distribution(const Tokens& tokens, int num_generated) const {
  const search::ProcessorOptions& p = options_.processors;
  std::vector<float> values = model_(tokens);
  for (const int32_t padding : options_.banned_tokens) {
    values[static_cast<size_t>(padding)] = kNever;  // has no share, whatever else is asked for
  }
  if (!p.renormalize) {
    values = PlainLogSoftmax(values);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    for (const search::TokenBias& bias : p.logit_bias) {
      values[i] += bias.token == token ? bias.bias : 0;
    }
    const float r = static_cast<float>(p.repetition_penalty);
    if (Contains(tokens, token)) {
      values[i] = values[i] < 0 ? values[i] * r : values[i] / r;
    }
    values[i] = Forbidden(tokens, num_generated, token)
                    ? kNever
                    : values[i] / static_cast<float>(p.temperature);
  }
  return p.renormalize ? PlainLogSoftmax(values) : values;
}

double NaiveRules::Earned(const Tokens& tokens) const {
  double earned = 0;
  for (const search::Hotword& hotword : options_.constraints.hotwords) {
    earned += EndsWith(tokens, hotword.tokens) ? hotword.bonus : 0;
  }
  return earned;
}

double NaiveRules::Promise(const Tokens& tokens) const {
  double promise = 0;
  for (const search::Hotword& hotword : options_.constraints.hotwords) {
    const size_t length = hotword.tokens.size();
    for (size_t d = 1; d < length; ++d) {
      const Tokens part(hotword.tokens.begin(), hotword.tokens.begin() + static_cast<int64_t>(d));
      if (EndsWith(tokens, part)) {
        promise =
            std::max(promise, hotword.bonus * static_cast<double>(d) / static_cast<double>(length));
      }
    }
  }
  return promise;
}

bool NaiveRules::Stops(const Tokens& tokens) const {
  std::string text;
  for (size_t i = options_.constraints.prefix.size(); !request_.stops.empty() && i < tokens.size();
       ++i) {
    text += request_.writes[static_cast<size_t>(tokens[i])];
  }
  return std::any_of(request_.stops.begin(), request_.stops.end(),
                     [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
}

bool NaiveRules::FollowsSoftPrefix(const Tokens& tokens) const {
  const Tokens& prefix = options_.constraints.prefix;
  const Tokens& soft = options_.constraints.soft_prefix;
  const Tokens own(tokens.begin() + static_cast<int64_t>(prefix.size()), tokens.end());
  return own.size() < soft.size() && StartsWith(soft, own);
}

double NaiveRules::Score(const NaiveHypothesis& hypothesis) const {
  const search::ConstraintOptions& c = options_.constraints;
  const double n =
      static_cast<double>(hypothesis.tokens.size() - (c.score_prefix ? 0 : c.prefix.size()));
  const double total =
      hypothesis.sum + hypothesis.reward + hypothesis.fused + options_.word_reward * n;
  switch (options_.length_penalty) {
    case search::LengthPenalty::kPow:
      return total / std::pow(n, options_.alpha);
    case search::LengthPenalty::kGnmt:
      return total / std::pow((5 + n) / 6, options_.alpha);
    case search::LengthPenalty::kNone:
      break;
  }
  return total;
}

float NaiveRules::Said(size_t index, const Tokens& tokens, int32_t token) const {
  float score = request_.scorers[index](tokens)[static_cast<size_t>(token)];
  score = std::min(score, 0.0f);
  return options_.scorers[index].weight < 0 ? std::max(score, -20.0f) : score;
}

}  // namespace beamwright::search_testing
