// Operators alone, at the sizes of the operator documents' examples and of decoding.
//   build/bin/beamwright-bench-ops [--benchmark_filter=REGEX]
// Argument `threads` of each benchmark: compute threads.
#include <benchmark/benchmark.h>

#include <random>

#include "ops/kernels/team.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "tests/support/graph_builder.h"

namespace beamwright::ops {
namespace {

using testing_support::GraphBuilder;

Tensor Random(Shape shape, std::mt19937& random) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::uniform_real_distribution<float> uniform(-0.1f, 0.1f);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = uniform(random);
  }
  return tensor;
}

Tensor RandomInts(Shape shape, int limit, std::mt19937& random) {
  Tensor tensor(DType::kI32, std::move(shape));
  std::uniform_int_distribution<int> uniform(0, limit - 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<int32_t>()[i] = uniform(random);
  }
  return tensor;
}

void RunModel(benchmark::State& state, Graph graph, const std::vector<Tensor>& inputs,
              int64_t threads, Precision weights = Precision::kF32) {
  auto model = Model::Compile(std::move(graph), weights);
  if (!model.ok()) {
    state.SkipWithError(std::string(model.status().message()).c_str());
    return;
  }
  ExecutionContext context;
  context.num_threads = static_cast<int>(threads);
  std::vector<Tensor> outputs;
  Model::Workspace workspace;
  Team::Within(context.num_threads, [&] {
    for (auto _ : state) {
      const absl::Status status = (*model)->Run(context, inputs, workspace, outputs);
      if (!status.ok()) {
        state.SkipWithError(std::string(status.message()).c_str());
        return;
      }
      benchmark::DoNotOptimize(outputs[0].bytes());
    }
  });
}

// step_ids and parent_ids [time, batch, beam].
void GatherTree(benchmark::State& state) {
  const int64_t time = state.range(0);
  const int64_t batch = state.range(1);
  const int64_t beam = state.range(2);
  std::mt19937 random(1);
  GraphBuilder builder;
  const auto ids = builder.Parameter("ids", DType::kI32, {time, batch, beam});
  const auto parents = builder.Parameter("parents", DType::kI32, {time, batch, beam});
  const auto lengths = builder.Parameter("lengths", DType::kI32, {batch});
  const auto end = builder.Parameter("end", DType::kI32, {});
  builder.Result("out", builder.Add("GatherTree", {ids, parents, lengths, end}));
  const std::vector<int32_t> full(static_cast<size_t>(batch), static_cast<int32_t>(time));
  RunModel(state, builder.Build(),
           {RandomInts({time, batch, beam}, 1000, random),
            RandomInts({time, batch, beam}, static_cast<int>(beam), random),
            Tensor::Of<int32_t>({batch}, full), Tensor::Scalar(int32_t{-1})},
           state.range(3));
}
BENCHMARK(GatherTree)
    ->ArgNames({"time", "batch", "beam", "threads"})
    ->UseRealTime()
    ->Args({100, 128, 8, 1})
    ->Args({100, 128, 8, 2})
    ->Args({50, 1, 5, 1})
    ->Args({50, 1, 5, 2});

// A table [rows, width]; `indices` rows of it summed into `segments`.
void EmbeddingSegmentsSum(benchmark::State& state) {
  const int64_t indices = state.range(2);
  const int64_t segments = state.range(3);
  std::mt19937 random(2);
  GraphBuilder builder;
  const auto table = builder.Parameter("table", DType::kF32, {state.range(0), state.range(1)});
  const auto index = builder.Parameter("indices", DType::kI32, {indices});
  const auto ids = builder.Parameter("segment_ids", DType::kI32, {indices});
  const auto count = builder.Constant(Tensor::Scalar(static_cast<int32_t>(segments)));
  builder.Result("out", builder.Add("EmbeddingSegmentsSum", {table, index, ids, count}));
  std::vector<int32_t> sorted(static_cast<size_t>(indices));
  for (int64_t i = 0; i < indices; ++i) {
    sorted[static_cast<size_t>(i)] = static_cast<int32_t>(i * segments / indices);
  }
  RunModel(state, builder.Build(),
           {Random({state.range(0), state.range(1)}, random),
            RandomInts({indices}, static_cast<int>(state.range(0)), random),
            Tensor::Of<int32_t>({indices}, sorted)},
           state.range(4));
}
BENCHMARK(EmbeddingSegmentsSum)
    ->ArgNames({"rows", "width", "indices", "segments", "threads"})
    ->UseRealTime()
    ->Args({1000000, 64, 20000, 4000, 1})
    ->Args({1000000, 64, 20000, 4000, 2})
    ->Args({32000, 512, 2000, 512, 1})
    ->Args({32000, 512, 2000, 512, 2});

// The TensorIterator document's example: [batch, 25, 512] through an LSTM of 256.
void LstmLoopIn(benchmark::State& state, Precision weights) {
  const int64_t batch = state.range(0);
  std::mt19937 random(3);
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {-1, 1, 512});
  const auto h = body.Parameter("h", DType::kF32, {-1, 256});
  const auto c = body.Parameter("c", DType::kF32, {-1, 256});
  const auto cell = body.Add(
      "LSTMCell",
      {body.Add("Squeeze", {x, body.Ints({1})}), h, c, body.Constant(Random({1024, 512}, random)),
       body.Constant(Random({1024, 256}, random)), body.Constant(Random({1024}, random))},
      {{"hidden_size", int64_t{256}}}, "cell", 2);
  body.Result("h_next", cell);
  body.Result("c_next", {cell.node, 1});
  body.Result("y", body.Add("Unsqueeze", {cell, body.Ints({1})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0),
                 testing_support::Carried(2, 2, 1)};
  loop.outputs = {testing_support::Joined(0, 2, 1)};
  GraphBuilder builder;
  const auto in = builder.Parameter("in", DType::kF32, {-1, 25, 512});
  const auto h0 = builder.Parameter("h0", DType::kF32, {-1, 256});
  const auto c0 = builder.Parameter("c0", DType::kF32, {-1, 256});
  builder.Result("out", builder.Loop({in, h0, c0}, loop, 1));
  RunModel(state, builder.Build(),
           {Random({batch, 25, 512}, random), Random({batch, 256}, random),
            Random({batch, 256}, random)},
           state.range(1), weights);
}
void LstmLoop(benchmark::State& state) { LstmLoopIn(state, Precision::kF32); }

void LstmSizes(benchmark::internal::Benchmark* loop) {
  loop->ArgNames({"batch", "threads"})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->ArgsProduct({{1, 8, 64}, {1, 2}});
}
BENCHMARK(LstmLoop)->Apply(LstmSizes);
BENCHMARK_CAPTURE(LstmLoopIn, bf16, Precision::kBf16)->Apply(LstmSizes);
BENCHMARK_CAPTURE(LstmLoopIn, bf16_dot, Precision::kBf16Dot)->Apply(LstmSizes);
BENCHMARK_CAPTURE(LstmLoopIn, bf16_amx, Precision::kBf16Amx)->Apply(LstmSizes);

// A body that is hardly there: h = tanh(x + h * R) of 16, for 1,000 steps. What an iteration costs.
void TinyLoop(benchmark::State& state) {
  constexpr int64_t kSteps = 1000;
  constexpr int64_t kHidden = 16;
  std::mt19937 random(4);
  GraphBuilder body;
  const auto x = body.Parameter("x", DType::kF32, {1, 1, kHidden});
  const auto h = body.Parameter("h", DType::kF32, {1, kHidden});
  const auto product = body.Add("MatMul", {h, body.Constant(Random({kHidden, kHidden}, random))},
                                {{"transpose_a", false}, {"transpose_b", false}});
  const auto next =
      body.Add("Tanh", {body.Add("Add", {body.Add("Squeeze", {x, body.Ints({1})}), product})});
  body.Result("h_next", next);
  body.Result("y", body.Add("Unsqueeze", {next, body.Ints({1})}));
  Loop loop;
  loop.body = body.Build();
  loop.inputs = {testing_support::Sliced(0, 0, 1), testing_support::Carried(1, 1, 0)};
  loop.outputs = {testing_support::Joined(0, 1, 1)};
  GraphBuilder builder;
  const auto in = builder.Parameter("in", DType::kF32, {1, kSteps, kHidden});
  const auto h0 = builder.Parameter("h0", DType::kF32, {1, kHidden});
  builder.Result("out", builder.Loop({in, h0}, loop, 1));
  RunModel(state, builder.Build(),
           {Random({1, kSteps, kHidden}, random), Random({1, kHidden}, random)}, state.range(0));
}
BENCHMARK(TinyLoop)->ArgNames({"threads"})->UseRealTime()->Args({1})->Args({2});

}  // namespace
}  // namespace beamwright::ops
