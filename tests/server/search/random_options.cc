#include "tests/server/search/random_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/server/search/table_model.h"

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

namespace {

void RandomiseSearch(Random& random, SearchOptions& options) {
  options.vocabulary_size = random.In(2, 12);
  options.beam_size = random.In(1, 8);
  options.n_best = random.In(1, options.beam_size);
  options.length_penalty = static_cast<LengthPenalty>(random.In(0, 2));
  options.alpha = random.In(-8, 8) / 4.0;
  options.stop = static_cast<StopMode>(random.In(0, 3));
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

}  // namespace

RandomCase MakeRandomCase(uint64_t seed, int sparsity) {
  Random random(seed);
  RandomCase result;
  SearchOptions& options = result.options;
  RandomiseSearch(random, options);
  RandomiseProcessors(random, sparsity, options);
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
  result.name =
      absl::StrCat("seed ", seed, ", V ", options.vocabulary_size, ", B ", options.beam_size,
                   ", n ", options.n_best, ", L ", options.max_length, ", stop ",
                   static_cast<int>(options.stop), ", kind ", static_cast<int>(kind));
  return result;
}

}  // namespace beamwright::search_testing
