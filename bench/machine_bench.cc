// The machine's own limits: multiply-adds out of registers in the forms that kernels use, and
// reading memory. Nothing can compute or stream faster; bench/run.py reckons from them what a
// decoder step could take at best.
//   build/bin/beamwright-bench-ops --benchmark_filter='^Machine'
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ops/base/vector_isa.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {
namespace {

// Some milliseconds, so that waking the second thread costs nothing.
constexpr int kRounds = 1 << 20;
// Enough sums side by side to hide the latency of a multiply-add, few enough to stay in registers.
constexpr int kSums = 12;

// Each runs kRounds * kSums instructions that depend on each other only through their own sum.
// The empty asm hides that all sums are equal, and that they could be known without a loop.
#define BW_MACHINE_LOOP(ADD)                          \
  for (int round = 0; round < kRounds; ++round) {     \
    _Pragma("GCC unroll 12") for (auto& sum : sums) { \
      sum = ADD;                                      \
      asm volatile("" : "+v"(sum));                   \
    }                                                 \
  }

__attribute__((target("avx2,fma"))) void FmaAvx2() {
  __m256 a = _mm256_set1_ps(0.5F);
  __m256 b = _mm256_set1_ps(0.25F);
  __m256 sums[kSums] = {};
  BW_MACHINE_LOOP(_mm256_fmadd_ps(a, b, sum))
}

__attribute__((target("avx512f"))) void FmaAvx512() {
  __m512 a = _mm512_set1_ps(0.5F);
  __m512 b = _mm512_set1_ps(0.25F);
  __m512 sums[kSums] = {};
  BW_MACHINE_LOOP(_mm512_fmadd_ps(a, b, sum))
}

__attribute__((target("avx512f,avx512bf16"))) void DotBf16() {
  __m512i a = _mm512_set1_epi16(0x3F00);
  __m512i b = _mm512_set1_epi16(0x3E80);
  __m512 sums[kSums] = {};
  BW_MACHINE_LOOP(_mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b))
}

__attribute__((target("avx512f,avx512vnni"))) void DotInt8() {
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(5);
  __m512i sums[kSums] = {};
  BW_MACHINE_LOOP(_mm512_dpbusd_epi32(sum, a, b))
}
#undef BW_MACHINE_LOOP

// Multiplications and additions of one instruction are two operations for each pair of numbers.
void Arithmetic(benchmark::State& state, void (*run)(), bool is_here, int operations) {
  if (!is_here) {
    state.SkipWithError("not on this CPU");
    return;
  }
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel num_threads(threads)
    run();
  }
  state.counters["per_second"] =
      benchmark::Counter(static_cast<double>(threads) * kRounds * kSums * operations,
                         benchmark::Counter::kIsIterationInvariantRate);
}

// Bytes that are read in order, each thread its own part of much more than the caches hold.
void Read(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  // Whole lines and huge pages, as weights have them.
  Tensor memory(DType::kI64, {int64_t{64} << 20});
  std::fill_n(memory.mutable_data<int64_t>(), memory.num_elements(), 1);
  for (auto _ : state) {
#pragma omp parallel num_threads(threads)
    {
      const int64_t part = memory.num_elements() / threads;
      const int64_t* const from = memory.data<int64_t>() + omp_get_thread_num() * part;
      int64_t sum = 0;
      Vectorized([&]() BW_ALWAYS_INLINE {
        int64_t lanes[8] = {};  // a vector's, or the compiler would add one number at a time
        for (int64_t i = 0; i + 8 <= part; i += 8) {
          for (int64_t lane = 0; lane < 8; ++lane) {
            lanes[lane] += from[i + lane];
          }
        }
        sum = std::accumulate(lanes, lanes + 8, int64_t{0});
      });
      benchmark::DoNotOptimize(sum);
    }
  }
  state.counters["per_second"] = benchmark::Counter(static_cast<double>(memory.num_bytes()),
                                                    benchmark::Counter::kIsIterationInvariantRate);
}

bool Has(VectorIsa isa) { return CurrentVectorIsa() >= isa; }

const bool kRegistered = [] {
  const auto add = [](const char* name, auto function, auto... arguments) {
    benchmark::RegisterBenchmark(name, function, arguments...)
        ->ArgName("threads")
        ->UseRealTime()
        ->Arg(1)
        ->Arg(2);
  };
  const bool wide = Has(VectorIsa::kAvx512);
  add("MachineF32", Arithmetic, wide ? FmaAvx512 : FmaAvx2, Has(VectorIsa::kAvx2), wide ? 32 : 16);
  add("MachineF32Avx2", Arithmetic, FmaAvx2, Has(VectorIsa::kAvx2), 16);
  add("MachineBf16", Arithmetic, DotBf16, wide && __builtin_cpu_supports("avx512bf16") != 0, 64);
  add("MachineInt8", Arithmetic, DotInt8, wide && __builtin_cpu_supports("avx512vnni") != 0, 128);
  add("MachineRead", Read);
  return true;
}();

}  // namespace
}  // namespace beamwright::ops
