// What options cost: one step of a search of beam 4 over 32,000 tokens, scan included, the model
// left out, with one option on at a time and with closed lists of up to a million entries.
//   build/bin/beamwright-bench-options [--benchmark_filter=REGEX]
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "ops/kernels/topk.h"
#include "server/search/beam_search.h"
#include "server/search/stable_tokens.h"

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

// told: as a stream does, asks after each step what is stable.
void Steps(benchmark::State& state, const SearchOptions& options, bool told = false) {
  const std::vector<float> attention(50, 0.02f);
  StableTokens stable;
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
      state.ResumeTiming();
    }
    rows.clear();
    // Always the work of a full beam: a row that is missing is a row scanned for nothing.
    for (size_t row = 0; row < scans.size(); ++row) {
      const bool live = row < static_cast<size_t>(search->num_rows());
      const auto scores = absl::MakeConstSpan(Logits()).subspan(row * kVocabulary, kVocabulary);
      const absl::Status status =
          ops::ScanRow(scores, ops::ScoreKind::kLogits, search->rules()[live ? row : 0],
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
        rows.push_back(
            {tokens[row], log_probs[row], ranks[row], scans[row].watched, nullptr, attention});
      }
    }
    benchmark::DoNotOptimize(search->Advance(rows));
    if (told) {
      benchmark::DoNotOptimize(stable.Update(*search));
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

void Register(const char* name, const std::function<void(SearchOptions&)>& change) {
  SearchOptions options = Plain();
  change(options);
  benchmark::RegisterBenchmark(name, [options](benchmark::State& state) { Steps(state, options); });
}

void RegisterAll() {
  Register("none", [](SearchOptions&) {});
  Register("repetition_penalty", [](SearchOptions& o) { o.processors.repetition_penalty = 1.2; });
  Register("no_repeat_ngram", [](SearchOptions& o) { o.processors.no_repeat_ngram = 3; });
  Register("suppress_tokens", [](SearchOptions& o) { o.processors.suppressed = {5, 6, 7}; });
  Register("min_length", [](SearchOptions& o) { o.processors.min_length = 10; });
  Register("temperature", [](SearchOptions& o) { o.processors.temperature = 0.8; });
  Register("word_reward", [](SearchOptions& o) { o.word_reward = 0.5; });
  Register("coverage_penalty/50", [](SearchOptions& o) { o.coverage_penalty = 0.2; });
  benchmark::RegisterBenchmark("stream",
                               [](benchmark::State& state) { Steps(state, Plain(), true); });
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
  Register("sampling_random", [](SearchOptions& o) {
    o.n_best = 4;
    o.sampling.kind = Sampling::kRandom;
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
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
