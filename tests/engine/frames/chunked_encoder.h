// A tiny encoder that reads chunk by chunk, with a state of each kind that exports have: a cache of
// frames [rows, 2, width], a recurrent state [1, rows, width] as torch lays it, and a count of what
// was read, i64 [rows]. What it computes is written down here a second time, frame by frame.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_CHUNKED_ENCODER_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_CHUNKED_ENCODER_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/frames/transducer_bundle.h"

namespace beamwright::engine_testing {

// Chunks of 5 frames, one every 4, give 2 frames each.
inline constexpr int kChunk = 5;
inline constexpr int kShift = 4;

struct ChunkedOptions {
  bool width_first = false;  // reads [rows, width, chunk], as NeMo's do
  bool mixes_rows = false;   // adds what is largest of all rows: they cannot run together
  bool is_for_one = false;   // exported for one row alone
  int tail = 0;
  float silence = -0.5F;
};

// Features [frames, kWidth] to frames [2 * chunks, kWidth]. Chunk c gives, for i = 0 and 1,
//   h + 0.01 * (frames read before) + 0.5 * (x[2i] + x[2i + 2]) + 0.25 * x[2i - 2],
// where x counts from the chunk's first frame on and x before it is the cache, and then
//   h = tanh(0.5 * h + x[4] * weight).
inline std::vector<float> EncodeByHand(std::vector<float> features, const ChunkedOptions& options) {
  const Weight weight("chunk", kWidth, kWidth);
  const int64_t count = static_cast<int64_t>(features.size()) / kWidth + options.tail;
  const int64_t chunks = (count + kShift - 1) / kShift;
  features.resize(static_cast<size_t>(((chunks - 1) * kShift + kChunk) * kWidth), options.silence);
  std::vector<double> h(kWidth);
  std::vector<double> cache(2 * kWidth);
  std::vector<float> frames;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto x = [&](int frame, int i) -> double {
      return frame < 0 ? cache[static_cast<size_t>((frame + 2) * kWidth + i)]
                       : features[static_cast<size_t>((chunk * kShift + frame) * kWidth + i)];
    };
    std::vector<double> last;
    for (int i = 0; i < kWidth; ++i) {
      last.push_back(x(4, i));
    }
    for (int out = 0; out < 2; ++out) {
      for (int i = 0; i < kWidth; ++i) {
        double value = h[static_cast<size_t>(i)] + 0.01 * static_cast<double>(chunk * kShift) +
                       0.5 * (x(2 * out, i) + x(2 * out + 2, i)) + 0.25 * x(2 * out - 2, i);
        value += options.mixes_rows ? 0.125 * x(0, i) : 0;
        frames.push_back(static_cast<float>(value));
      }
    }
    const std::vector<double> added = weight.Times(last);
    for (size_t i = 0; i < h.size(); ++i) {
      h[i] = std::tanh(0.5 * h[i] + added[i]);
    }
    std::vector<double> next;
    for (int frame = 2; frame < 4; ++frame) {
      for (int i = 0; i < kWidth; ++i) {
        next.push_back(x(frame, i));
      }
    }
    cache = next;
  }
  return frames;
}

// Adds the results "next_*" and returns the frames, [rows, 2, kWidth].
inline Value AddChunkedEncoder(GraphBuilder& graph, const ChunkedOptions& options) {
  const int64_t rows = options.is_for_one ? 1 : -1;
  Value x = graph.Parameter(
      "features", ops::DType::kF32,
      options.width_first ? ops::Shape{rows, kWidth, -1} : ops::Shape{rows, -1, kWidth});
  if (options.width_first) {
    x = graph.Add("Transpose", {x, graph.Ints({0, 2, 1})});
  }
  const Value cache = graph.Parameter("cache", ops::DType::kF32, {rows, 2, kWidth});
  const Value h = graph.Parameter("h", ops::DType::kF32, {1, rows, kWidth});
  const Value read = graph.Parameter("read", ops::DType::kI64, {rows});
  const auto half = [&graph](Value value, float factor) {
    return graph.Add("Multiply", {value, graph.Constant(ops::Tensor::Scalar(factor))});
  };
  const auto sum = [&graph](Value a, Value b) { return graph.Add("Add", {a, b}); };
  const Value all = graph.Add("Concat", {cache, x}, {{"axis", int64_t{1}}});  // frame f is f + 2
  const auto at = [&](std::vector<int64_t> frames) {
    return graph.Add("Gather", {all, graph.Ints(frames), graph.Int(1)});
  };
  const Value hidden = graph.Add("Squeeze", {h, graph.Ints({0})});
  const Value counted =
      half(graph.Add("Convert", {read}, {{"destination_type", std::string("f32")}}), 0.01F);
  Value frames = sum(half(sum(at({2, 4}), at({4, 6})), 0.5F), half(at({0, 2}), 0.25F));
  frames = sum(frames, graph.Add("Unsqueeze", {counted, graph.Ints({1, 2})}));
  frames = sum(frames, graph.Add("Unsqueeze", {hidden, graph.Ints({1})}));
  if (options.mixes_rows) {
    const Value largest = graph.Add("ReduceMax", {at({2}), graph.Ints({0})}, {{"keep_dims", true}});
    frames = sum(frames, half(largest, 0.125F));
  }
  const Value last = graph.Add("Squeeze", {at({6}), graph.Ints({1})});
  const Value next = graph.Add(
      "Tanh", {sum(half(hidden, 0.5F), Product(graph, last, Weight("chunk", kWidth, kWidth)))});
  graph.Result("next_cache", at({4, 5}));
  graph.Result("next_h", graph.Add("Unsqueeze", {next, graph.Ints({0})}));
  graph.Result("next_read",
               sum(read, graph.Constant(ops::Tensor::Of<int64_t>({1}, std::vector<int64_t>{4}))));
  return frames;
}

inline v1::EncoderConfig ChunkedConfig(const ChunkedOptions& options) {
  v1::EncoderConfig config;
  config.set_graph("encoder.onnx");
  config.set_length_axis(options.width_first ? 2 : 0);
  v1::StreamingConfig& streaming = *config.mutable_streaming();
  streaming.set_chunk(kChunk);
  streaming.set_shift(kShift);
  streaming.set_tail(options.tail);
  streaming.set_silence(options.silence);
  for (const std::string name : {"cache", "h", "read"}) {
    v1::EncoderStateConfig& state = *streaming.add_states();
    state.set_input(name);
    state.set_output("next_" + name);
    if (options.is_for_one && name == "h") {
      state.set_rows_axis(1);
    }
  }
  return config;
}

// A transducer whose encoder that is.
inline bundle::Bundle ChunkedTransducer(const ChunkedOptions& options) {
  TransducerOptions without;
  without.has_encoder = false;
  without.predictor = Predictor::kStateless;
  bundle::Bundle bundle = TransducerBundle(without);
  GraphBuilder encoder;
  encoder.Result("frames", AddChunkedEncoder(encoder, options));
  bundle.encoder = encoder.Build();
  *bundle.config.mutable_encoder() = ChunkedConfig(options);
  bundle.config.mutable_transducer()->set_encoder_output("frames");
  return bundle;
}

// A CTC model that says of a frame what CtcBundle's says.
inline bundle::Bundle ChunkedCtc(const ChunkedOptions& options) {
  CtcOptions without;
  without.has_encoder = false;
  bundle::Bundle bundle = CtcBundle(without);
  GraphBuilder encoder;
  const Value weight = encoder.Constant(ops::Tensor::Of<float>({kFeatures, kColumns}, CtcWeight()));
  encoder.Result("scores", encoder.Add("MatMul", {AddChunkedEncoder(encoder, options), weight}));
  bundle.encoder = encoder.Build();
  *bundle.config.mutable_encoder() = ChunkedConfig(options);
  bundle.config.mutable_ctc()->set_encoder_output("scores");
  bundle.config.mutable_ctc()->clear_kind();
  return bundle;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_CHUNKED_ENCODER_H_
