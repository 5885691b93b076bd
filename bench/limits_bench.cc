// oneDNN's own LSTM, which bench/run.py compares with the loop of the TensorIterator document.
//   build/bin/beamwright-bench-ops --benchmark_filter='^OneDnn'
#include <benchmark/benchmark.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace beamwright {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;
constexpr auto kF32 = memory::data_type::f32;
constexpr auto kAny = memory::format_tag::any;

dnnl::engine& Cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A memory of this form. Denormal or random content would measure something else or nothing more.
memory Filled(const memory::desc& desc) {
  memory content(desc, Cpu());
  auto* const data = static_cast<float*>(content.get_data_handle());
  for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
    data[i] = 0.01F * static_cast<float>(i % 7);
  }
  return content;
}

// [25, batch, 512] -> LSTM 256: the loop of the TensorIterator document, with weights in oneDNN's
// form.
void OneDnnLstm(benchmark::State& state) {
  constexpr int64_t kSteps = 25, kInput = 512, kHidden = 256;
  const int64_t batch = state.range(0);
  omp_set_num_threads(static_cast<int>(state.range(1)));
  using Tag = memory::format_tag;
  const memory::desc x({kSteps, batch, kInput}, kF32, Tag::tnc);
  const memory::desc y({kSteps, batch, kHidden}, kF32, Tag::tnc);
  const memory::desc states({1, 1, batch, kHidden}, kF32, Tag::ldnc);
  const memory::desc w({1, 1, kInput, 4, kHidden}, kF32, kAny);
  const memory::desc r({1, 1, kHidden, 4, kHidden}, kF32, kAny);
  const memory::desc bias({1, 1, 4, kHidden}, kF32, Tag::ldgo);
  const dnnl::lstm_forward::primitive_desc form(
      {dnnl::prop_kind::forward_inference, dnnl::rnn_direction::unidirectional_left2right, x,
       states, states, w, r, bias, y, states, states},
      Cpu());
  const dnnl::lstm_forward lstm(form);
  const Arguments arguments = {{DNNL_ARG_SRC_LAYER, Filled(x)},
                               {DNNL_ARG_SRC_ITER, Filled(states)},
                               {DNNL_ARG_SRC_ITER_C, Filled(states)},
                               {DNNL_ARG_WEIGHTS_LAYER, Filled(form.weights_layer_desc())},
                               {DNNL_ARG_WEIGHTS_ITER, Filled(form.weights_iter_desc())},
                               {DNNL_ARG_BIAS, Filled(bias)},
                               {DNNL_ARG_DST_LAYER, Filled(y)},
                               {DNNL_ARG_DST_ITER, Filled(states)},
                               {DNNL_ARG_DST_ITER_C, Filled(states)}};
  dnnl::stream stream(Cpu());
  for (auto _ : state) {
    lstm.execute(stream, arguments);
    stream.wait();
  }
}
BENCHMARK(OneDnnLstm)
    ->ArgNames({"batch", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->ArgsProduct({{1, 8, 64}, {1, 2}});

}  // namespace
}  // namespace beamwright
