// What options cost: one step of a search of beam 4 over 32,000 tokens, scan included, the model
// left out, with one option on at a time, with closed lists of up to a million entries, with an
// n-gram model of a million n-grams, and what it takes to join several decoders' scores.
//   build/bin/beamwright-bench-options [--benchmark_filter=REGEX]
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "engine/fusion/ngram_model.h"
#include "engine/fusion/row_scorers.h"
#include "engine/search/beam_search.h"
#include "ops/kernels/panel_scan.h"
#include "ops/kernels/topk.h"

namespace beamwright::search {
namespace {

constexpr int kVocabulary = 32000;
constexpr int kLength = 16;

const std::vector<float>& Logits() {
  static const std::vector<float>* const logits = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    auto* values = new std::vector<float>(4 * kVocabulary);
    for (float& value : *values) {
      value = normal(random);
    }
    return values;
  }();
  return *logits;
}

std::shared_ptr<const TokenTrie> Trie(int64_t entries) {
  std::mt19937 random(2);
  std::vector<TokenSequence> sequences(static_cast<size_t>(entries));
  for (TokenSequence& sequence : sequences) {
    sequence.resize(kLength - 1);
    for (int32_t& token : sequence) {
      token = static_cast<int32_t>(1 + random() % (kVocabulary - 1));
    }
  }
  return std::make_shared<const TokenTrie>(std::move(sequences), std::vector<int32_t>{0});
}

// A million random bigrams over all unigrams.
std::shared_ptr<const fusion::NgramModel> Bigrams() {
  std::mt19937 random(3);
  fusion::NgramVocabulary vocabulary = {kVocabulary, {0}};
  std::vector<fusion::Ngram> ngrams = {{{vocabulary.end_word()}, -3, 0, 0}};
  for (int32_t token = 1; token < kVocabulary; ++token) {
    ngrams.push_back({{token}, -4, -0.5f, 0});
    for (int32_t i = 0; i < 31; ++i) {
      const auto next = static_cast<int32_t>(1 + i * 1000 + static_cast<int32_t>(random() % 1000));
      ngrams.push_back({{token, next}, -2, 0, 0});
    }
  }
  return *fusion::NgramModel::Create(vocabulary, std::move(ngrams));
}

fusion::CtcFrames Frames(int num_frames, int num_columns) {
  std::mt19937 random(4);
  std::exponential_distribution<float> exponential(1);
  fusion::CtcFrames frames;
  frames.num_columns = num_columns;
  frames.probs.resize(static_cast<size_t>(num_frames * num_columns));
  for (float& value : frames.probs) {
    value = exponential(random) / static_cast<float>(num_columns);
  }
  return frames;
}

// Scorers of language models, made anew for each search.
using MakeScorers = std::function<std::vector<std::unique_ptr<fusion::RowScorer>>()>;

// What the driver does for one row of a request with scorers.
void Fuse(std::vector<std::unique_ptr<fusion::RowScorer>>& scorers, const SearchOptions& options,
          size_t row, FusedRow& fused, RowRules& rules) {
  for (size_t i = 0; i < scorers.size(); ++i) {
    scorers[i]->Score(static_cast<int>(row), fused.Scores(i, kVocabulary));
  }
  fused.Join(options.scorers);
  rules.added = fused.added();
}

// `as_stream`: asks after each step what is stable.
void Steps(benchmark::State& state, const SearchOptions& options, const MakeScorers& make,
           bool as_stream = false) {
  const std::vector<float> attention(50, 0.02f);
  StableTokens stable;
  std::vector<FusedRow> fused(static_cast<size_t>(options.beam_size));
  std::vector<std::unique_ptr<fusion::RowScorer>> scorers =
      make ? make() : std::vector<std::unique_ptr<fusion::RowScorer>>();
  std::vector<ops::RowScan> scans(static_cast<size_t>(options.beam_size));
  std::vector<std::vector<int32_t>> tokens(scans.size());
  std::vector<std::vector<float>> log_probs(scans.size());
  std::vector<std::vector<float>> ranks(scans.size());
  std::vector<RowCandidates> rows;
  auto search = BeamSearch::Create(options);
  for (auto _ : state) {
    if (search->done()) {
      state.PauseTiming();
      search = BeamSearch::Create(options);
      stable = StableTokens();
      scorers = make ? make() : std::vector<std::unique_ptr<fusion::RowScorer>>();
      state.ResumeTiming();
    }
    rows.clear();
    // Always the work of a full beam: a row that is missing is a row scanned for nothing.
    for (size_t row = 0; row < scans.size(); ++row) {
      const bool live = row < static_cast<size_t>(search->num_rows());
      const auto scores = absl::MakeConstSpan(Logits()).subspan(row * kVocabulary, kVocabulary);
      RowRules rules = search->rules()[live ? row : 0];
      if (!scorers.empty()) {
        Fuse(scorers, options, live ? row : 0, fused[row], rules);
      }
      const absl::Status status = ops::ScanRow(scores, ops::ScoreKind::kLogits, rules,
                                               search->candidates_per_row(), scans[row]);
      if (!status.ok()) {
        state.SkipWithError("the scan failed");
        return;
      }
      tokens[row].clear();
      log_probs[row].clear();
      ranks[row].clear();
      for (const ops::Candidate& candidate : scans[row].best) {
        tokens[row].push_back(candidate.token);
        log_probs[row].push_back(candidate.log_prob);
        ranks[row].push_back(candidate.rank_score);
      }
      if (live) {
        rows.push_back({tokens[row],
                        log_probs[row],
                        ranks[row],
                        scans[row].watched,
                        scorers.empty() ? nullptr : &fused[row],
                        {},
                        attention});
      }
    }
    benchmark::DoNotOptimize(search->Advance(rows));
    if (as_stream) {
      benchmark::DoNotOptimize(stable.Update(*search));
    }
    for (auto& scorer : scorers) {
      if (!search->done()) {
        scorer->Advance(search->parents(), search->tokens());
      }
    }
  }
}

// Four rows of several decoders as one.
void Mix(benchmark::State& state, size_t num_decoders, ops::MixKind kind) {
  std::vector<ops::MixPart> parts;
  for (size_t i = 0; i < num_decoders; ++i) {
    parts.push_back({absl::MakeConstSpan(Logits()).subspan(i * kVocabulary, kVocabulary),
                     ops::ScoreKind::kLogits, 1.0f / static_cast<float>(num_decoders)});
  }
  std::vector<float> scratch;
  std::vector<float> logits;
  for (auto _ : state) {
    for (int row = 0; row < 4; ++row) {
      benchmark::DoNotOptimize(ops::MixScores(absl::MakeSpan(parts), kind, scratch, logits));
    }
  }
}

SearchOptions Plain() {
  SearchOptions options;
  options.vocabulary_size = kVocabulary;
  options.max_length = kLength;
  options.end_tokens = {0};
  options.stop = StopMode::kNever;
  return options;
}

void Register(const char* name, const std::function<void(SearchOptions&)>& change,
              const MakeScorers& make = nullptr) {
  SearchOptions options = Plain();
  change(options);
  benchmark::RegisterBenchmark(
      name, [options, make](benchmark::State& state) { Steps(state, options, make); });
}

void RegisterFusion() {
  const auto one = [](SearchOptions& o) { o.scorers = {{"scorer", 0.3f}}; };
  const auto bigrams = Bigrams();
  Register("fusion/ngram_million", one, [bigrams] {
    std::vector<std::unique_ptr<fusion::RowScorer>> scorers;
    scorers.push_back(std::make_unique<fusion::NgramScorer>(bigrams));
    return scorers;
  });
  for (const int columns : {100, 5000}) {
    Register(("fusion/ctc_200_frames/" + std::to_string(columns)).c_str(), one, [columns] {
      std::vector<std::unique_ptr<fusion::RowScorer>> scorers;
      scorers.push_back(
          std::make_unique<fusion::CtcPrefixScorer>(Frames(200, columns), std::vector<int32_t>{0}));
      return scorers;
    });
  }
  for (const size_t decoders : {2, 4}) {
    benchmark::RegisterBenchmark(
        ("ensemble_log_probs/" + std::to_string(decoders)).c_str(),
        [decoders](benchmark::State& s) { Mix(s, decoders, ops::MixKind::kLogProbs); });
    benchmark::RegisterBenchmark(
        ("ensemble_probs/" + std::to_string(decoders)).c_str(),
        [decoders](benchmark::State& s) { Mix(s, decoders, ops::MixKind::kProbs); });
  }
}

void RegisterAll() {
  Register("none", [](SearchOptions&) {});
  Register("repetition_penalty", [](SearchOptions& o) { o.processors.repetition_penalty = 1.2; });
  Register("no_repeat_ngram", [](SearchOptions& o) { o.processors.no_repeat_ngram = 3; });
  Register("suppress_tokens", [](SearchOptions& o) { o.processors.suppressed = {5, 6, 7}; });
  Register("min_length", [](SearchOptions& o) { o.processors.min_length = 10; });
  Register("temperature", [](SearchOptions& o) { o.processors.temperature = 0.8; });
  Register("length_penalty", [](SearchOptions& o) {
    o.length_penalty = LengthPenalty::kGnmt;
    o.stop = StopMode::kSafe;
  });
  Register("at_limit_force_end", [](SearchOptions& o) { o.at_limit = AtLimit::kForceEnd; });
  Register("end_threshold", [](SearchOptions& o) { o.end_threshold = 1.5; });
  Register("score_threshold", [](SearchOptions& o) { o.score_threshold = -100; });
  Register("beam_threshold", [](SearchOptions& o) { o.beam_threshold = 10; });
  Register("n_best/4", [](SearchOptions& o) { o.n_best = 4; });
  Register("suppress_at_begin", [](SearchOptions& o) {
    o.processors.suppressed_at_begin = {5, 6, 7};
  });
  Register("suppress_sequences", [](SearchOptions& o) {
    o.processors.suppressed_sequences = {{5, 6}, {7, 8, 9}};
  });
  Register("renormalize_false", [](SearchOptions& o) {
    o.processors.renormalize = false;
    o.processors.suppressed = {5, 6, 7};
  });
  Register("num_alternatives/4", [](SearchOptions& o) {
    o.constraints.num_alternatives = 4;
    o.n_best = 4;
  });
  Register("word_reward", [](SearchOptions& o) { o.word_reward = 0.5; });
  Register("coverage_penalty/50", [](SearchOptions& o) { o.coverage_penalty = 0.2; });
  benchmark::RegisterBenchmark(
      "stream", [](benchmark::State& state) { Steps(state, Plain(), nullptr, true); });
  Register("soft_prefix", [](SearchOptions& o) {
    o.constraints.soft_prefix = {1, 2, 3, 4, 5, 6, 7, 8};
    o.constraints.soft_prefix_weight = 0.5;
  });
  Register("hotwords/100", [](SearchOptions& o) {
    for (int32_t i = 0; i < 100; ++i) {
      o.constraints.hotwords.push_back({{i * 7 + 1, i * 5 + 2, i * 3 + 3}, 2});
    }
  });
  Register("required_sequences", [](SearchOptions& o) { o.constraints.required = {{9, 8}, {7}}; });
  Register("diverse_groups", [](SearchOptions& o) {
    o.num_groups = 2;
    o.diversity_penalty = 0.5;
  });
  Register("top_tokens/5", [](SearchOptions& o) { o.num_top_tokens = 5; });
  Register("shortlist/1000", [](SearchOptions& o) {
    for (int32_t i = 0; i < 1000; ++i) {
      o.constraints.shortlist.push_back(i * 32);
    }
  });
  Register("sampling_random", [](SearchOptions& o) {
    o.n_best = 4;
    o.sampling.kind = Sampling::kRandom;
  });
  Register("top_k_top_p_min_p", [](SearchOptions& o) {
    o.n_best = 4;
    o.sampling.kind = Sampling::kRandom;
    o.sampling.top_k = 50;
    o.sampling.top_p = 0.9;
    o.sampling.min_p = 0.01;
  });
  Register("sampling_without_replacement",
           [](SearchOptions& o) { o.sampling.kind = Sampling::kWithoutReplacement; });
  for (const int64_t entries : {int64_t{10}, int64_t{1000}, int64_t{1000000}}) {
    const auto trie = Trie(entries);
    Register(("allowed_list/" + std::to_string(entries)).c_str(),
             [trie](SearchOptions& o) { o.constraints.allowed = trie; });
  }
}

}  // namespace
}  // namespace beamwright::search

int main(int argc, char** argv) {
  beamwright::search::RegisterAll();
  beamwright::search::RegisterFusion();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
