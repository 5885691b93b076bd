// Products of rows with a constant weight, in every precision, and with what was computed, with the
// vectors and the tiles that the CPU has. One thread; the counter is CPU time's.
//   build/bin/beamwright-bench-ops --benchmark_filter='^Product' --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/packed_matmul.h"

namespace beamwright::ops {
namespace {

std::vector<float> RandomFloats(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = uniform(random);
  }
  return values;
}

void Product(benchmark::State& state, Precision precision, VectorIsa isa, int64_t depth,
             int64_t columns) {
  const ScopedVectorIsa scope(isa);
  if (CurrentVectorIsa() != isa) {
    state.SkipWithError("not on this CPU");
    return;
  }
  constexpr int64_t kPanel = 512;  // as the vocabulary's product is computed, and scanned
  const int64_t rows = state.range(0);
  const std::vector<float> weight = RandomFloats(depth * columns);
  const std::vector<float> a = RandomFloats(rows * depth);
  const PackedMatMul packed({weight.data(), depth, columns, columns}, false, precision);
  std::vector<float> out(static_cast<size_t>(rows * kPanel));
  PackedMatMul::Activations activations;
  for (auto _ : state) {
    packed.Prepare(1, {a.data(), rows, depth, depth}, activations);
    for (int64_t column = 0; column < columns; column += kPanel) {
      packed.RunPanel(activations, 0, column, {}, {out.data(), rows, kPanel, kPanel});
    }
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(rows * depth * columns),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

// Both products of attention: rows of `width` times the keys, and their scores times the memory.
void AttentionProducts(benchmark::State& state, VectorIsa isa, int64_t length, int64_t width) {
  const ScopedVectorIsa scope(isa);
  if (CurrentVectorIsa() != isa) {
    state.SkipWithError("not on this CPU");
    return;
  }
  const int64_t count = state.range(0);
  const std::vector<float> memory = RandomFloats(length * width);
  std::vector<float> queries = RandomFloats(count * width);
  std::vector<float> scores(static_cast<size_t>(count * length));
  std::vector<float> contexts(static_cast<size_t>(count * width));
  FewRows score;
  FewRows mix;
  for (int64_t row = 0; row < count; ++row) {
    score.a[row] = queries.data() + row * width;
    score.out[row] = scores.data() + row * length;
    mix.a[row] = score.out[row];
    mix.out[row] = contexts.data() + row * width;
  }
  score.count = mix.count = static_cast<int>(count);
  for (auto _ : state) {
    MultiplyRows(score, {memory.data(), width, /*transposed=*/true}, width, length);
    MultiplyRows(mix, {memory.data(), width, /*transposed=*/false}, length, width);
    benchmark::DoNotOptimize(contexts.data());
  }
  state.counters["GFLOP/s"] = benchmark::Counter(4e-9 * static_cast<double>(count * length * width),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

// In the first two caches, and from memory.
constexpr std::pair<int64_t, int64_t> kShapes[] = {{256, 1024}, {1024, 32768}};
constexpr std::pair<VectorIsa, const char*> kIsas[] = {
    {VectorIsa::kAvx2, "avx2"}, {VectorIsa::kAvx512, "avx512"}, {VectorIsa::kAmx, "amx"}};

// Tiles change nothing in the others.
bool UsesTiles(Precision precision) {
  return precision == Precision::kInt8 || precision == Precision::kBf16Amx;
}

// Source positions, and values of each.
constexpr std::pair<int64_t, int64_t> kMemories[] = {{30, 256}, {30, 1024}, {1000, 1024}};

const bool kRegistered = [] {
  for (const auto& [length, width] : kMemories) {
    for (const auto& [isa, name] : kIsas) {
      if (isa == VectorIsa::kAmx) {
        continue;
      }
      benchmark::RegisterBenchmark(
          absl::StrCat("ProductOfAttention/", name, "/", length, "x", width).c_str(),
          [isa = isa, length = length, width = width](benchmark::State& state) {
            AttentionProducts(state, isa, length, width);
          })
          ->ArgName("rows")
          ->Arg(1)
          ->Arg(5);
    }
  }
  for (const auto& [depth, columns] : kShapes) {
    for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kBf16Dot,
                                      Precision::kBf16Amx, Precision::kInt8}) {
      for (const auto& [isa, name] : kIsas) {
        if (isa == VectorIsa::kAmx && !UsesTiles(precision)) {
          continue;
        }
        benchmark::RegisterBenchmark(
            absl::StrCat("Product/", Name(precision), "/", name, "/", depth, "x", columns).c_str(),
            [=, isa = isa, depth = depth, columns = columns](benchmark::State& state) {
              Product(state, precision, isa, depth, columns);
            })
            ->ArgName("rows")
            ->Arg(1)
            ->Arg(5)
            ->Arg(16)
            ->Arg(64);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace beamwright::ops
