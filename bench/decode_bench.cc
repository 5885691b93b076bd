// The engine in process on the default model: words per second with a number of words in flight.
//   build/bin/beamwright-bench-decode [--benchmark_filter=REGEX]   (from the top of the repository)
#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>

#include "absl/synchronization/mutex.h"
#include "server/engine/engine.h"

namespace beamwright::engine {
namespace {

std::shared_ptr<const DecodeModel> LoadModel() {
  auto bundle = model::LoadBundle("models/g2p-en/1");
  auto compiled = bundle.ok() ? DecodeModel::Compile(*std::move(bundle)) : bundle.status();
  if (!compiled.ok()) {
    std::fprintf(stderr, "%s\n", compiled.status().ToString().c_str());
    return nullptr;
  }
  return *std::move(compiled);
}

std::vector<std::string> ReadWords() {
  std::ifstream file("models/g2p-en/words-test.txt");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word);) {
    words.push_back(word);
  }
  return words;
}

// Keeps `in_flight` words in the engine; one iteration is one word answered.
void Decode(benchmark::State& state) {
  static const std::shared_ptr<const DecodeModel> model = LoadModel();
  static const std::vector<std::string> words = ReadWords();
  if (model == nullptr || words.empty()) {
    state.SkipWithError("run from the top of the repository");
    return;
  }
  auto engine = Engine::Start({static_cast<int>(state.range(2)), 4096, 4096});
  v1::DecodeOptions options;
  options.set_beam_size(static_cast<int>(state.range(1)));
  absl::Mutex mutex;
  int64_t in_flight = 0;
  size_t next = 0;
  for (auto _ : state) {
    const auto has_room = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex) {
      return in_flight < state.range(0);
    };
    mutex.LockWhen(absl::Condition(&has_room));
    ++in_flight;
    mutex.Unlock();
    v1::Source source;
    source.set_text(words[next++ % words.size()]);
    (*engine)->Decode(model, source, options, {}, [&](absl::StatusOr<v1::Decoded>) {
      absl::MutexLock lock(&mutex);
      --in_flight;
    });
  }
  (*engine)->Drain();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Decode)
    ->ArgNames({"in_flight", "beam", "threads"})
    ->UseRealTime()
    ->MinTime(3)
    ->Args({1, 5, 1})
    ->Args({16, 5, 1})
    ->Args({128, 5, 1})
    ->Args({128, 5, 2});

}  // namespace
}  // namespace beamwright::engine

BENCHMARK_MAIN();
