// Checks the options of a search before it begins: Validate. Two kinds of faults:
//
// 1. A value that is out of its range: CheckProcessors, CheckConstraints, CheckSearch. Tokens must
//    be in the vocabulary. The engine checks most of these when it reads a request, with the names
//    of its fields; here they protect the search itself, also in tests and fuzzers that use it
//    directly.
// 2. Options that exclude each other: Conflicts, a table of features and of the pairs that no
//    search can satisfy together, such as sampling with required sequences. It is exported, since
//    the engine reports conflicts with the names that requests use.
//
// All faults are collected into one InvalidArgument.
#include "engine/search/options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ops/base/check.h"
#include "ops/base/status.h"
#include "ops/base/vector_isa.h"

namespace beamwright::search {

absl::Span<float> FusedRow::Scores(size_t index, size_t vocabulary_size) {
  scores_[index].resize(vocabulary_size);
  return absl::MakeSpan(scores_[index]);
}

// Scores of all scorers, each times its weight, summed for each token; scores themselves are kept
// for the answer's parts. A scorer with a negative weight may not make a token arbitrarily good:
// its scores are bounded from below.
void FusedRow::Join(absl::Span<const ScorerWeight> scorers) {
  BW_DCHECK(!scorers.empty() && scorers.size() <= kMaxScorers);
  const size_t count = scores_[0].size();
  added_.resize(count);
  float* const added = added_.data();
  for (size_t index = 0; index < scorers.size(); ++index) {
    float* const scores = scores_[index].data();
    const float weight = scorers[index].weight;
    const float least = weight < 0 ? kLeastSubtracted : -std::numeric_limits<float>::infinity();
    const bool is_first = index == 0;
    Vectorized([=]() BW_ALWAYS_INLINE {
      for (size_t i = 0; i < count; ++i) {
        float score = scores[i];
        score = score > 0 ? 0 : score;  // NaN stays, for the scan to find
        score = score < least ? least : score;
        scores[i] = score;
        added[i] = is_first ? weight * score : added[i] + weight * score;
      }
    });
  }
}

float MemberScores::log_prob(int32_t token) const {
  const float score = scores[static_cast<size_t>(token)];
  return std::min(are_probs ? std::log(score) : score - shift, 0.0f);
}

namespace {

// Collects faults, each a sentence that names the option, its value and what is allowed.
class Faults {
 public:
  void CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      Add(field, " is ", value, ", must be in [", low, ", ", high, "]");
    }
  }

  void CheckPositive(absl::string_view field, double value) {
    if (!(value > 0) || !std::isfinite(value)) {
      Add(field, " is ", value, ", must be finite and greater than 0");
    }
  }

  void CheckSequences(absl::string_view field, const std::vector<TokenSequence>& sequences,
                      int size) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::string name = absl::StrCat(field, "[", i, "]");
      if (sequences[i].empty()) {
        Add(name, " is empty");
      }
      CheckTokens(name, sequences[i], size);
    }
  }

  void CheckTokens(absl::string_view field, const std::vector<int32_t>& tokens, int size) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= size) {
        Add(field, "[", i, "] is ", tokens[i], ", must be in [0, vocabulary_size = ", size, ")");
      }
    }
  }

  void CheckNone(absl::string_view field, const std::vector<int32_t>& tokens,
                 const std::vector<int32_t>& excluded, absl::string_view what) {
    for (const int32_t token : tokens) {
      if (std::count(excluded.begin(), excluded.end(), token) > 0) {
        Add(field, ": token ", token, " is ", what);
      }
    }
  }

  template <typename... Pieces>
  void Add(const Pieces&... pieces) {
    faults_.push_back(absl::StrCat(pieces...));
  }

  absl::Status Result() const {
    return faults_.empty() ? absl::OkStatus()
                           : Invalid("search options: ", absl::StrJoin(faults_, "; "));
  }

 private:
  std::vector<std::string> faults_;
};

void CheckProcessors(const SearchOptions& options, Faults& faults) {
  const ProcessorOptions& processors = options.processors;
  const int size = options.vocabulary_size;
  faults.CheckPositive("repetition_penalty", processors.repetition_penalty);
  faults.CheckPositive("temperature", processors.temperature);
  faults.CheckRange("no_repeat_ngram", processors.no_repeat_ngram, 0, kMaxLength);
  faults.CheckTokens("suppressed", processors.suppressed, size);
  faults.CheckTokens("suppressed_at_begin", processors.suppressed_at_begin, size);
  faults.CheckSequences("suppressed_sequences", processors.suppressed_sequences, size);
  for (const TokenBias& bias : processors.logit_bias) {
    faults.CheckTokens("logit_bias", {bias.token}, size);
    if (!std::isfinite(bias.bias)) {
      faults.Add("logit_bias of token ", bias.token, " is ", bias.bias, ", must be finite");
    }
  }
  if (processors.min_length < 0 || processors.min_length > options.max_length) {
    faults.Add("min_length is ", processors.min_length,
               ", must be in [0, max_length = ", options.max_length, "]");
  }
}

void CheckConstraints(const SearchOptions& options, Faults& faults) {
  const ConstraintOptions& constraints = options.constraints;
  const int size = options.vocabulary_size;
  const auto check = [&](absl::string_view field, const std::vector<int32_t>& tokens) {
    faults.CheckTokens(field, tokens, size);
    faults.CheckNone(field, tokens, options.end_tokens, "an end token");
  };
  check("target_prefix", constraints.prefix);
  faults.CheckNone("target_prefix", constraints.prefix, options.banned_tokens, "never generated");
  faults.CheckRange("target_prefix's length", static_cast<int64_t>(constraints.prefix.size()), 0,
                    kMaxLength);
  check("soft_prefix", constraints.soft_prefix);
  faults.CheckTokens("shortlist", constraints.shortlist, size);
  if (constraints.allowed != nullptr && options.end_tokens.empty()) {
    faults.Add("allowed_sequences: there is no end token that could close them");
  }
  if (constraints.text != nullptr && options.end_tokens.empty()) {
    faults.Add(constraints.text->option(), ": there is no end token that could close a text");
  }
  if (!(constraints.soft_prefix_weight >= 0) || !(constraints.soft_prefix_weight < 1)) {
    faults.Add("soft_prefix_weight is ", constraints.soft_prefix_weight, ", must be in [0, 1)");
  }
  faults.CheckSequences("required_sequences", constraints.required, size);
  faults.CheckRange("the number of required_sequences",
                    static_cast<int64_t>(constraints.required.size()), 0, kMaxConstraints);
  for (const TokenSequence& sequence : constraints.required) {
    check("required_sequences", sequence);
    faults.CheckRange("the length of a required sequence", static_cast<int64_t>(sequence.size()), 1,
                      kMaxConstraintLength);
  }
  for (const Hotword& hotword : constraints.hotwords) {
    check("hotwords", hotword.tokens);
    if (hotword.tokens.empty()) {
      faults.Add("hotwords: a phrase is empty");
    }
    if (!(hotword.bonus >= 0) || !std::isfinite(hotword.bonus)) {
      faults.Add("hotwords: a bonus is ", hotword.bonus, ", must be finite and at least 0");
    }
  }
  faults.CheckRange("num_alternatives", constraints.num_alternatives, 0, options.beam_size);
  if (!(constraints.alternative_min_prob >= 0) || !(constraints.alternative_min_prob <= 1)) {
    faults.Add("alternative_min_prob is ", constraints.alternative_min_prob, ", must be in [0, 1]");
  }
}

void CheckSearch(const SearchOptions& options, Faults& faults) {
  const auto check = [&](absl::string_view field, double value, bool allowed) {
    if (!allowed) {
      faults.Add(field, " is ", value, ", which is out of range");
    }
  };
  check("word_reward", options.word_reward, std::abs(options.word_reward) <= 1000);
  check("coverage_penalty", options.coverage_penalty,
        options.coverage_penalty >= 0 && std::isfinite(options.coverage_penalty));
  check("end_threshold", options.end_threshold,
        options.end_threshold >= 0 && std::isfinite(options.end_threshold));
  check("score_threshold", options.score_threshold, !std::isnan(options.score_threshold));
  check("beam_threshold", options.beam_threshold, options.beam_threshold >= 0);
  check("diversity_penalty", options.diversity_penalty,
        options.diversity_penalty >= 0 && std::isfinite(options.diversity_penalty));
  faults.CheckRange("diverse_groups", options.num_groups, 1, std::max(1, options.beam_size));
  const SamplingOptions& sampling = options.sampling;
  faults.CheckRange("top_k", sampling.top_k, 0, std::numeric_limits<int32_t>::max());
  check("top_p", sampling.top_p, sampling.top_p > 0 && sampling.top_p <= 1);
  check("min_p", sampling.min_p, sampling.min_p >= 0 && sampling.min_p <= 1);
  faults.CheckRange("the number of fusion's scorers", static_cast<int64_t>(options.scorers.size()),
                    0, kMaxScorers);
  for (const ScorerWeight& scorer : options.scorers) {
    check("fusion: a weight", static_cast<double>(scorer.weight),
          std::isfinite(scorer.weight) && scorer.weight != 0);
  }
  faults.CheckRange("the number of an ensemble's decoders", options.num_members, 0, kMaxMembers);
  faults.CheckRange("top_tokens", options.num_top_tokens, 0, kMaxBeamSize);
}

}  // namespace

// Each feature has the name that requests use. A pair is listed once, in the line of the feature
// that rules the other one out; what more than two numbers decide together is checked below the
// table.
std::vector<Conflict> Conflicts(const SearchOptions& options) {
  const ConstraintOptions& constraints = options.constraints;
  std::vector<Conflict> conflicts;
  struct Feature {
    const char* name;
    bool is_on;
  };
  const auto exclude = [&](const char* name, bool is_on, const std::vector<Feature>& others) {
    for (const Feature& other : others) {
      if (is_on && other.is_on) {
        conflicts.push_back({absl::StrCat(name, " and ", other.name), "exclude each other"});
      }
    }
  };
  const Feature groups = {"diverse_groups", options.num_groups > 1};
  const Feature alternatives = {"num_alternatives", constraints.num_alternatives > 0};
  const Feature required = {"required_sequences", !constraints.required.empty()};
  const Feature hotwords = {"hotwords", !constraints.hotwords.empty()};
  const Feature soft_prefix = {"soft_prefix", !constraints.soft_prefix.empty()};
  const Feature end_threshold = {"end_threshold", options.end_threshold > 0};
  const Feature beam_threshold = {"beam_threshold", std::isfinite(options.beam_threshold)};
  const Feature score_threshold = {"score_threshold", std::isfinite(options.score_threshold)};
  const Feature force_end = {"at_limit force-end", options.at_limit == AtLimit::kForceEnd};
  const Feature penalty = {"length_penalty", options.length_penalty != LengthPenalty::kNone};
  const Feature reward = {"word_reward", options.word_reward != 0};
  const Feature coverage = {"coverage_penalty", options.coverage_penalty > 0};
  const Feature top_tokens = {"top_tokens", options.num_top_tokens > 0};
  const Feature fusion = {"fusion", !options.scorers.empty()};
  const Feature raw = {"renormalize false", !options.processors.renormalize};
  const Feature bias = {"logit_bias", !options.processors.logit_bias.empty()};
  const Feature allowed = {"allowed_sequences or allowed_list", constraints.allowed != nullptr};
  const Feature first = {"stop first", options.stop == StopMode::kFirst};
  const Feature count = {"stop count", options.stop == StopMode::kCount};
  const Feature heuristic = {"stop heuristic", options.stop == StopMode::kHeuristic};
  const bool random = options.sampling.kind == Sampling::kRandom;
  const bool noise = options.sampling.kind == Sampling::kWithoutReplacement;
  exclude("sampling", random || noise,
          {groups, alternatives, required, hotwords, soft_prefix, end_threshold, beam_threshold,
           force_end, top_tokens, raw, fusion});
  exclude("sampling without-replacement", noise,
          {score_threshold, penalty, reward, coverage, first, count, heuristic});
  // A bias above 0 would make a log-probability above 0, which no bound knows.
  exclude("logit_bias", bias.is_on, {raw});
  // A stop string may end a hypothesis before it has what it must contain.
  exclude("stop_strings", options.stop_strings != nullptr, {required, allowed});
  exclude("diverse_groups", groups.is_on, {alternatives, required, first});
  // A bonus may hide the token that the threshold compares with.
  exclude("end_threshold", end_threshold.is_on, {hotwords, soft_prefix, fusion});
  exclude("required_sequences", required.is_on,
          {alternatives, hotwords, soft_prefix, beam_threshold});
  if (groups.is_on && options.beam_size % options.num_groups != 0) {
    conflicts.push_back({"diverse_groups",
                         absl::StrCat(options.num_groups, " groups do not divide the beam size of ",
                                      options.beam_size)});
  }
  if (alternatives.is_on && (options.beam_size % constraints.num_alternatives != 0 ||
                             options.n_best != constraints.num_alternatives)) {
    conflicts.push_back(
        {"num_alternatives",
         absl::StrCat(constraints.num_alternatives, " must divide the beam size of ",
                      options.beam_size, " and equal n_best, which is ", options.n_best)});
  }
  if (random && options.n_best != options.beam_size) {
    conflicts.push_back(
        {"sampling random", absl::StrCat("a sample takes a row: beam_size (", options.beam_size,
                                         ") must equal n_best (", options.n_best, ")")});
  }
  if (!random &&
      (options.sampling.top_k != 0 || options.sampling.top_p != 1 || options.sampling.min_p != 0)) {
    conflicts.push_back({"top_k, top_p and min_p", "need sampling random"});
  }
  if (force_end.is_on && options.max_length > 0 &&
      options.processors.min_length >= options.max_length) {
    conflicts.push_back(
        {"at_limit force-end and min_length",
         absl::StrCat("an end token after ", options.processors.min_length,
                      " tokens is beyond the maximum length of ", options.max_length)});
  }
  if (force_end.is_on && alternatives.is_on && options.max_length == 1) {
    conflicts.push_back({"at_limit force-end and num_alternatives",
                         "no alternative begins with an end token, so that "
                         "a maximum length of 1 leaves no room for one; it must be at least 2"});
  }
  return conflicts;
}

absl::Status Validate(const SearchOptions& options) {
  Faults faults;
  faults.CheckRange("beam_size", options.beam_size, 1, kMaxBeamSize);
  if (options.n_best < 1 || options.n_best > options.beam_size) {
    faults.Add("n_best is ", options.n_best, ", must be in [1, beam_size = ", options.beam_size,
               "]");
  }
  if (options.length_penalty > LengthPenalty::kGnmt) {
    faults.Add("length_penalty is ", static_cast<int>(options.length_penalty),
               ", must be none, pow or gnmt");
  }
  if (!(std::abs(options.alpha) <= kMaxAbsAlpha)) {
    faults.Add("alpha is ", options.alpha, ", must be in [", -kMaxAbsAlpha, ", ", kMaxAbsAlpha,
               "]");
  }
  if (options.stop > StopMode::kHeuristic) {
    faults.Add("stop is ", static_cast<int>(options.stop),
               ", must be safe, first, count, never or heuristic");
  }
  faults.CheckPositive("patience", options.patience);
  faults.CheckRange("max_length", options.max_length, 1, kMaxLength);
  if (options.vocabulary_size < 1) {
    faults.Add("vocabulary_size is ", options.vocabulary_size, ", must be at least 1");
  }
  if (options.begin_token < 0) {
    faults.Add("begin_token is ", options.begin_token, ", must be at least 0");
  }
  faults.CheckTokens("end_tokens", options.end_tokens, options.vocabulary_size);
  faults.CheckTokens("banned_tokens", options.banned_tokens, options.vocabulary_size);
  for (size_t i = 0; i < options.banned_tokens.size(); ++i) {
    const int32_t token = options.banned_tokens[i];
    if (std::count(options.end_tokens.begin(), options.end_tokens.end(), token) > 0) {
      faults.Add("banned_tokens[", i, "] is ", token, ", which is an end token");
    }
  }
  CheckProcessors(options, faults);
  CheckConstraints(options, faults);
  CheckSearch(options, faults);
  for (const Conflict& conflict : Conflicts(options)) {
    faults.Add(conflict.options, ": ", conflict.text);
  }
  return faults.Result();
}

}  // namespace beamwright::search
