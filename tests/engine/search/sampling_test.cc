// Sampling through the whole search, with the real scan: exact distributions over sequences (O10),
// draws that other samples cannot change, samples without replacement.
#include <algorithm>
#include <cmath>
#include <map>

#include "gtest/gtest.h"
#include "ops/kernels/topk.h"
#include "tests/engine/search/naive_search.h"
#include "tests/engine/search/search_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {
namespace {

using search::BeamSearch;
using search::Hypothesis;
using search::RowCandidates;
using search::Sampling;
using search::SearchOptions;
using Tokens = std::vector<int32_t>;

std::vector<Hypothesis> Sample(const RawModel& model, const SearchOptions& options) {
  auto created = BeamSearch::Create(options);
  EXPECT_TRUE(created.ok()) << created.status();
  BeamSearch search = *std::move(created);
  std::vector<Tokens> rows(1);
  while (!search.done()) {
    std::vector<ops::RowScan> scans(rows.size());
    std::vector<Candidates> lists(rows.size());
    std::vector<std::vector<float>> ranks(rows.size());
    std::vector<RowCandidates> views;
    for (size_t row = 0; row < rows.size(); ++row) {
      EXPECT_TRUE(ops::ScanRow(model(rows[row]), ops::ScoreKind::kLogits, search.rules()[row],
                               search.candidates_per_row(), scans[row])
                      .ok());
      for (const ops::Candidate& candidate : scans[row].best) {
        lists[row].tokens.push_back(candidate.token);
        lists[row].log_probs.push_back(candidate.log_prob);
        ranks[row].push_back(candidate.rank_score);
      }
      views.push_back({lists[row].tokens, lists[row].log_probs, ranks[row], scans[row].watched});
    }
    const absl::Status status = search.Advance(views);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<Tokens> next;
    for (size_t row = 0; row < search.tokens().size(); ++row) {
      next.push_back(rows.at(static_cast<size_t>(search.parents()[row])));
      next.back().push_back(search.tokens()[row]);
    }
    rows = std::move(next);
  }
  const std::vector<int32_t> paths = WalkPaths(search.history());
  auto hypotheses = search.Collect({paths, search.num_slots()});
  EXPECT_TRUE(hypotheses.ok()) << hypotheses.status();
  return *std::move(hypotheses);
}

RawModel Model(uint64_t seed, int vocabulary_size) {
  const TableModel table(seed, vocabulary_size, TableModel::Kind::kSoftmax);
  return [table](const Tokens& tokens) { return table.LogProbs(tokens, {}); };
}

SearchOptions Options(Sampling kind, int samples) {
  SearchOptions options;
  options.beam_size = options.n_best = samples;
  options.vocabulary_size = 3;
  options.max_length = 3;
  options.begin_token = 0;
  options.end_tokens = {0};
  options.sampling.kind = kind;
  return options;
}

// Every sequence that ends or is cut, with its probability.
void Enumerate(const RawModel& model, const SearchOptions& options, const Tokens& tokens,
               double probability, std::map<Tokens, double>& all) {
  const std::vector<float> log_probs = model(tokens);
  for (int32_t token = 0; token < options.vocabulary_size; ++token) {
    Tokens next = tokens;
    next.push_back(token);
    const double p =
        probability * std::exp(static_cast<double>(log_probs[static_cast<size_t>(token)]));
    if (token == 0 || static_cast<int>(next.size()) == options.max_length) {
      all[next] = p;
    } else {
      Enumerate(model, options, next, p, all);
    }
  }
}

double ChiSquare(const std::map<Tokens, int>& counts, const std::map<Tokens, double>& expected,
                 int total) {
  double statistic = 0;
  for (const auto& [tokens, p] : expected) {
    const auto it = counts.find(tokens);
    const double difference = (it == counts.end() ? 0 : it->second) - p * total;
    statistic += difference * difference / (p * total);
  }
  return statistic;
}

constexpr double kCritical14 = 36.12;  // 99.9 % of chi-square with 14 degrees of freedom

TEST(SamplingTest, RandomSamplesHaveTheirProbabilities) {
  const RawModel model = Model(11, 3);
  SearchOptions options = Options(Sampling::kRandom, 200);
  std::map<Tokens, double> expected;
  Enumerate(model, options, {}, 1, expected);
  ASSERT_EQ(expected.size(), 15u);
  std::map<Tokens, int> counts;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    options.sampling.seed = seed;
    const std::vector<Hypothesis> samples = Sample(model, options);
    ASSERT_EQ(samples.size(), 200u);
    for (const Hypothesis& sample : samples) {
      ++counts[sample.tokens];
      EXPECT_NEAR(std::exp(sample.sum), expected.at(sample.tokens), 1e-6);
    }
  }
  EXPECT_LT(ChiSquare(counts, expected, 20000), kCritical14);
}

// A sample is what it is however many others are drawn with it.
TEST(SamplingTest, ASampleDependsOnItsNumberAlone) {
  const RawModel model = Model(12, 8);
  SearchOptions options = Options(Sampling::kRandom, 16);
  options.vocabulary_size = 8;
  options.max_length = 12;
  options.sampling.seed = 99;
  const std::vector<Hypothesis> many = Sample(model, options);
  options.beam_size = options.n_best = 3;
  const std::vector<Hypothesis> few = Sample(model, options);
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].tokens, many[i].tokens);
    EXPECT_EQ(few[i].sum, many[i].sum);
  }
}

TEST(SamplingTest, TheBestOfTheNoisyIsASampleAndAllAreDistinct) {
  const RawModel model = Model(13, 3);
  SearchOptions options = Options(Sampling::kWithoutReplacement, 4);
  std::map<Tokens, double> expected;
  Enumerate(model, options, {}, 1, expected);
  std::map<Tokens, int> firsts;
  std::map<std::pair<Tokens, Tokens>, int> pairs;
  constexpr int kTrials = 20000;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    options.sampling.seed = seed;
    const std::vector<Hypothesis> samples = Sample(model, options);
    ASSERT_EQ(samples.size(), 4u);
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        ASSERT_NE(samples[i].tokens, samples[j].tokens);
        ASSERT_GE(samples[j].score, samples[i].score);
      }
    }
    ++firsts[samples[0].tokens];
    ++pairs[{samples[0].tokens, samples[1].tokens}];
  }
  EXPECT_LT(ChiSquare(firsts, expected, kTrials), kCritical14);
  // The second is a sample of what is left, for every first that is frequent enough to test.
  int checked = 0;
  for (const auto& [first, count] : firsts) {
    if (count < 2000) {
      continue;
    }
    std::map<Tokens, double> rest = expected;
    rest.erase(first);
    std::map<Tokens, int> seconds;
    for (const auto& [tokens, p] : rest) {
      rest[tokens] = p / (1 - expected.at(first));
      seconds[tokens] = pairs[{first, tokens}];
    }
    EXPECT_LT(ChiSquare(seconds, rest, count), 34.53);  // 13 degrees of freedom
    ++checked;
  }
  EXPECT_GT(checked, 1);
}

// With as many rows as there are sequences all of them come, in any order.
TEST(SamplingTest, WithoutReplacementAWideBeamReturnsEverySequence) {
  const RawModel model = Model(14, 3);
  SearchOptions options = Options(Sampling::kWithoutReplacement, 15);
  std::map<Tokens, double> expected;
  Enumerate(model, options, {}, 1, expected);
  const std::vector<Hypothesis> samples = Sample(model, options);
  ASSERT_EQ(samples.size(), expected.size());
  for (const Hypothesis& sample : samples) {
    EXPECT_EQ(expected.count(sample.tokens), 1u);
  }
}

TEST(SamplingTest, ChanceStartsBehindTheTargetPrefix) {
  const RawModel model = Model(15, 5);
  for (const Sampling kind : {Sampling::kRandom, Sampling::kWithoutReplacement}) {
    SearchOptions options = Options(kind, 6);
    options.vocabulary_size = 5;
    options.max_length = 8;
    options.constraints.prefix = {3, 1, 3};
    for (const Hypothesis& sample : Sample(model, options)) {
      ASSERT_GT(sample.tokens.size(), 3u);
      EXPECT_EQ(Tokens(sample.tokens.begin(), sample.tokens.begin() + 3), Tokens({3, 1, 3}));
    }
  }
}

}  // namespace
}  // namespace beamwright::search_testing
