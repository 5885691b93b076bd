#include "tests/engine/search/random_options.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/grammar/constraint.h"
#include "engine/grammar/expression.h"
#include "engine/grammar/program.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {

using search::LengthPenalty;
using search::SearchOptions;
using search::StopMode;

std::vector<int32_t> Random::Tokens(const SearchOptions& options, int least, int most) {
  std::vector<int32_t> tokens;
  for (int i = In(least, most); i > 0; --i) {
    const int32_t token = In(0, options.vocabulary_size - 1);
    const auto& ends = options.end_tokens;
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) {
      tokens.push_back(token);
    }
  }
  return tokens;
}

std::shared_ptr<const grammar::Constraint> ConstraintOf(const std::vector<std::string>& units,
                                                        const std::vector<std::string>& writes,
                                                        const std::vector<int32_t>& end_tokens) {
  grammar::Grammar made;
  made.rules.push_back(*grammar::ReadRegex(absl::StrCat("(", absl::StrJoin(units, "|"), ")*")));
  auto texts = std::make_shared<const grammar::TokenTexts>(
      static_cast<int32_t>(writes.size()),
      [&writes](int32_t token, bool /*is_first*/) { return writes[static_cast<size_t>(token)]; },
      /*drops_last_space=*/false);
  return std::make_shared<const grammar::Constraint>("regex", *grammar::Compile(made),
                                                     std::move(texts), end_tokens);
}

void RandomiseSearch(Random& random, SearchOptions& options) {
  options.vocabulary_size = random.In(1, 12);
  options.beam_size = random.In(1, 8);
  options.n_best = random.In(1, options.beam_size);
  options.length_penalty = static_cast<LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-8, 8) / 4.0;
  options.stop = static_cast<StopMode>(random.In(0, 4));
  options.patience = random.In(1, 8) / 4.0;
  options.max_length = random.In(1, 9);
  options.begin_token = random.In(0, options.vocabulary_size);
  for (int i = random.In(0, 3); i > 0; --i) {
    options.end_tokens.push_back(random.In(0, options.vocabulary_size - 1));
  }
  if (random.OneIn(4)) {
    options.banned_tokens = random.Tokens(options, 1, 2);
  }
}

namespace {

void RandomiseProcessors(Random& random, int sparsity, SearchOptions& options) {
  search::ProcessorOptions& p = options.processors;
  if (random.OneIn(sparsity)) {
    p.repetition_penalty = random.In(1, 12) / 4.0;
  }
  if (random.OneIn(sparsity)) {
    p.no_repeat_ngram = random.In(1, 3);
  }
  if (random.OneIn(sparsity)) {
    p.suppressed = random.Tokens(options, 1, 2);
  }
  if (random.OneIn(sparsity)) {
    p.suppressed_at_begin = {random.In(0, options.vocabulary_size - 1)};
  }
  for (int i = random.OneIn(sparsity) ? random.In(1, 4) : 0; i > 0; --i) {
    std::vector<int32_t> sequence = random.Tokens(options, 1, 3);
    sequence.push_back(random.In(0, options.vocabulary_size - 1));
    p.suppressed_sequences.push_back(sequence);
  }
  if (random.OneIn(sparsity)) {
    p.min_length = random.In(1, options.max_length);
  }
  if (random.OneIn(sparsity)) {
    p.temperature = random.In(1, 12) / 4.0;
  }
  p.renormalize = !random.OneIn(sparsity);
}

void RandomiseSearchExtras(Random& random, int sparsity, SearchOptions& options) {
  if (random.OneIn(sparsity)) {
    options.word_reward = random.In(-6, 6) / 4.0;
  }
  if (random.OneIn(sparsity)) {
    options.at_limit = search::AtLimit::kForceEnd;
  }
  if (random.OneIn(sparsity)) {
    options.end_threshold = random.In(1, 8) / 4.0;
  }
  if (random.OneIn(sparsity)) {
    options.score_threshold = -random.In(1, 16) / 2.0;
  }
  if (random.OneIn(sparsity)) {
    options.beam_threshold = random.In(0, 16) / 4.0;
  }
}

// At most one of the kinds that exclude each other.
void RandomiseKind(Random& random, SearchOptions& options) {
  search::ConstraintOptions& constraints = options.constraints;
  const int size = random.In(1, 3);
  switch (random.In(0, 6)) {
    case 0:
      options.num_groups = random.In(2, 3);
      options.beam_size = size * options.num_groups;
      options.n_best = random.In(1, options.beam_size);
      options.diversity_penalty = random.In(0, 8) / 4.0;
      break;
    case 1:
      constraints.num_alternatives = random.In(1, 4);
      options.beam_size = size * constraints.num_alternatives;
      options.n_best = constraints.num_alternatives;
      constraints.alternative_min_prob = random.In(0, 2) / 16.0;
      break;
    case 2:
      constraints.required_in_order = random.OneIn(2);
      for (int i = random.In(1, 3); i > 0; --i) {
        constraints.required.push_back(random.Tokens(options, 1, 2));
      }
      break;
    default:
      break;
  }
}

void RandomiseConstraints(Random& random, int sparsity, NaiveRequest& request) {
  SearchOptions& options = request.options;
  search::ConstraintOptions& constraints = options.constraints;
  if (random.OneIn(sparsity)) {
    constraints.prefix = random.Tokens(options, 1, 4);
    constraints.score_prefix = random.OneIn(2);
  }
  if (random.OneIn(sparsity)) {
    constraints.soft_prefix = random.Tokens(options, 1, 4);
    constraints.soft_prefix_weight = random.In(0, 7) / 8.0;
  }
  for (int i = random.OneIn(sparsity) ? random.In(1, 4) : 0; i > 0; --i) {
    const std::vector<int32_t> tokens = random.Tokens(options, 1, 4);
    if (!tokens.empty()) {
      constraints.hotwords.push_back({tokens, random.In(0, 12) / 4.0});
    }
  }
  if (random.OneIn(2 * sparsity)) {
    constraints.shortlist = random.Tokens(options, 3, 9);
    std::sort(constraints.shortlist.begin(), constraints.shortlist.end());
  }
  if (random.OneIn(2 * sparsity)) {
    for (int i = random.In(3, 40); i > 0; --i) {
      std::vector<int32_t> entry = random.Tokens(options, 1, 5);
      if (random.OneIn(2)) {
        entry.insert(entry.begin(), constraints.prefix.begin(), constraints.prefix.end());
      }
      if (!entry.empty()) {
        request.entries.push_back(entry);
      }
    }
    if (!request.entries.empty()) {
      constraints.allowed =
          std::make_shared<const search::TokenTrie>(request.entries, options.end_tokens);
    }
  }
}

// What scorers say may be impossible, or above 0, which counts as 0.
void RandomiseScorers(Random& random, int sparsity, uint64_t seed, NaiveRequest& request) {
  for (int i = random.OneIn(sparsity) ? random.In(1, 3) : 0; i > 0; --i) {
    const int weight = random.In(1, 6);
    request.options.scorers.push_back(
        {absl::StrCat("scorer ", i), static_cast<float>(random.OneIn(3) ? -weight : weight) / 4});
    const auto kind = random.OneIn(4) ? TableModel::Kind::kSparse : TableModel::Kind::kSoftmax;
    const TableModel table(seed + 100000 * static_cast<uint64_t>(i),
                           request.options.vocabulary_size, kind);
    const float shift = random.OneIn(4) ? 0.5f : 0;
    request.scorers.push_back([table, shift](const std::vector<int32_t>& tokens) {
      std::vector<float> scores = table.LogProbs(tokens, {});
      for (float& score : scores) {
        score += shift;
      }
      return scores;
    });
  }
}

// Short strings over two letters, so that they begin within tokens and overlap.
std::string Letters(Random& random, int least, int most) {
  std::string text;
  for (int i = random.In(least, most); i > 0; --i) {
    text += random.OneIn(2) ? 'a' : 'b';
  }
  return text;
}

void RandomiseWrites(Random& random, NaiveRequest& request) {
  while (request.writes.size() < static_cast<size_t>(request.options.vocabulary_size)) {
    request.writes.push_back(Letters(random, 0, 2));
  }
}

void RandomiseGrammar(Random& random, int sparsity, NaiveRequest& request) {
  SearchOptions& options = request.options;
  if (!random.OneIn(sparsity) || options.end_tokens.empty()) {
    return;
  }
  RandomiseWrites(random, request);
  for (int i = random.In(1, 3); i > 0; --i) {
    request.units.push_back(Letters(random, 1, 4));
  }
  options.constraints.text = ConstraintOf(request.units, request.writes, options.end_tokens);
}

void RandomiseStops(Random& random, int sparsity, NaiveRequest& request) {
  SearchOptions& options = request.options;
  if (!random.OneIn(sparsity) || !options.constraints.required.empty() ||
      options.constraints.allowed != nullptr) {
    return;
  }
  RandomiseWrites(random, request);
  for (int i = random.In(1, 3); i > 0; --i) {
    request.stops.push_back(Letters(random, 1, 4));
  }
  options.stop_strings = std::make_shared<const search::StopStrings>(
      request.stops, [writes = request.writes](int32_t token, bool /*is_first*/) {
        return writes[static_cast<size_t>(token)];
      });
}

void RandomiseBiases(Random& random, int sparsity, SearchOptions& options) {
  if (!random.OneIn(sparsity) || !options.processors.renormalize) {
    return;
  }
  for (int32_t token = 0; token < options.vocabulary_size; ++token) {
    if (random.OneIn(3)) {
      options.processors.logit_bias.push_back({token, static_cast<float>(random.In(-8, 8)) / 4});
    }
  }
}

std::string Join(const std::vector<int32_t>& tokens) { return absl::StrJoin(tokens, " "); }

// What differs from the defaults.
std::string Describe(uint64_t seed, const NaiveRequest& request) {
  const SearchOptions& o = request.options;
  const SearchOptions none;
  const search::ProcessorOptions& p = o.processors;
  const search::ConstraintOptions& c = o.constraints;
  std::string text = absl::StrCat("seed ", seed, ", V ", o.vocabulary_size, ", B ", o.beam_size,
                                  ", n ", o.n_best, ", L ", o.max_length, ", stop ",
                                  static_cast<int>(o.stop), ", ends ", Join(o.end_tokens));
  const auto add = [&](const char* name, double value, double usual) {
    absl::StrAppend(&text, value == usual ? "" : absl::StrCat(", ", name, " ", value));
  };
  const auto list = [&](const char* name, const std::vector<int32_t>& tokens) {
    absl::StrAppend(&text, tokens.empty() ? "" : absl::StrCat(", ", name, " ", Join(tokens)));
  };
  add("penalty", static_cast<double>(o.length_penalty), 0);
  add("alpha", o.alpha, 1);
  add("patience", o.patience, 1);
  add("word_reward", o.word_reward, 0);
  add("at_limit", static_cast<double>(o.at_limit), 0);
  add("end_threshold", o.end_threshold, 0);
  add("score_threshold", o.score_threshold, none.score_threshold);
  add("beam_threshold", o.beam_threshold, none.beam_threshold);
  add("groups", o.num_groups, 1);
  add("diversity", o.diversity_penalty, 0);
  add("repetition", p.repetition_penalty, 1);
  add("ngram", p.no_repeat_ngram, 0);
  add("min_length", p.min_length, 0);
  add("temperature", p.temperature, 1);
  add("renormalize", p.renormalize ? 1 : 0, 1);
  list("banned", o.banned_tokens);
  list("suppressed", p.suppressed);
  list("at begin", p.suppressed_at_begin);
  list("prefix", c.prefix);
  list("soft", c.soft_prefix);
  list("shortlist", c.shortlist);
  add("soft weight", c.soft_prefix_weight, 0);
  add("score_prefix", c.score_prefix ? 1 : 0, 0);
  add("alternatives", c.num_alternatives, 0);
  add("min_prob", c.alternative_min_prob, 0);
  add("in order", c.required_in_order ? 1 : 0, 0);
  add("suppressed sequences", static_cast<double>(p.suppressed_sequences.size()), 0);
  add("entries", static_cast<double>(request.entries.size()), 0);
  add("stops", static_cast<double>(request.stops.size()), 0);
  add("units", static_cast<double>(request.units.size()), 0);
  add("biases", static_cast<double>(p.logit_bias.size()), 0);
  for (const auto& sequence : c.required) {
    list("required", sequence);
  }
  for (const search::Hotword& hotword : c.hotwords) {
    absl::StrAppend(&text, ", hotword ", Join(hotword.tokens), " for ", hotword.bonus);
  }
  for (const search::ScorerWeight& scorer : o.scorers) {
    absl::StrAppend(&text, ", ", scorer.name, " for ", scorer.weight);
  }
  return text;
}

}  // namespace

RandomCase MakeRandomCase(uint64_t seed, int sparsity) {
  Random random(seed);
  RandomCase result;
  SearchOptions& options = result.request.options;
  RandomiseSearch(random, options);
  RandomiseProcessors(random, sparsity, options);
  RandomiseSearchExtras(random, sparsity, options);
  RandomiseKind(random, options);
  RandomiseConstraints(random, sparsity, result.request);
  RandomiseScorers(random, sparsity, seed, result.request);
  const auto kind = static_cast<TableModel::Kind>(random.In(0, 2));
  const TableModel table(seed, options.vocabulary_size, kind);
  const float shift = static_cast<float>(random.In(0, 3));  // logits of both signs
  result.model = [table, shift](const std::vector<int32_t>& tokens) {
    std::vector<float> scores = table.LogProbs(tokens, {});
    for (float& score : scores) {
      score += shift;
    }
    return scores;
  };
  RandomiseStops(random, sparsity, result.request);
  RandomiseBiases(random, sparsity, options);
  RandomiseGrammar(random, sparsity, result.request);
  result.name = Describe(seed, result.request);
  return result;
}

}  // namespace beamwright::search_testing
