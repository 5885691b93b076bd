// Tiny random transducers: an LSTM predictor and one that reads its last two tokens, each with a
// joiner in a separate graph, or both in one. What they say of a frame behind some labels is
// written down here a second time, in double and row by row.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_TRANSDUCER_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_TRANSDUCER_BUNDLE_H_

#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/frames/ctc_bundle.h"

namespace beamwright::engine_testing {

inline constexpr int kWidth = 3;   // of the encoder's frames; its weight is the unit matrix
inline constexpr int kTokens = 4;  // the blank, 0, among them
inline constexpr int kHidden = 6;  // of the predictor
inline constexpr int kJoined = 8;

enum class Predictor { kLstm, kStateless };

struct TransducerOptions {
  Predictor predictor = Predictor::kLstm;
  bool is_one_graph = false;  // predictor and joiner in one file
  bool width_first = false;   // frames [rows, width, frames], as NeMo exports them
  bool has_encoder = true;
  std::vector<int> durations;  // of token and duration
  int max_symbols = 0;
  bool quantizes = false;  // the joiner's last product in 8 bits, by a scale of all rows together
  bool expands = false;    // the joiner expands each side to the other's extent before it adds them
};

// A random matrix [rows, columns], the same for the same name.
struct Weight {
  int rows = 0;
  int columns = 0;
  std::vector<float> values;

  Weight(const std::string& name, int rows_in, int columns_in)
      : rows(rows_in), columns(columns_in) {
    const auto mix = [](uint32_t sum, char c) { return sum * 31 + static_cast<uint32_t>(c); };
    std::minstd_rand random(std::accumulate(name.begin(), name.end(), uint32_t{1}, mix));
    for (int i = 0; i < rows * columns; ++i) {
      values.push_back(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 700);
    }
  }
  ops::Tensor tensor() const { return ops::Tensor::Of<float>({rows, columns}, values); }
  std::vector<double> Times(const std::vector<double>& row) const {
    std::vector<double> product(static_cast<size_t>(columns));
    for (size_t i = 0; i < row.size(); ++i) {
      for (size_t j = 0; j < product.size(); ++j) {
        product[j] += row[i] * double{values[i * product.size() + j]};
      }
    }
    return product;
  }
  std::vector<double> Row(int row) const {
    const auto first = values.begin() + row * columns;
    return {first, first + columns};
  }
};

inline std::vector<double> Plus(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += b[i];
  }
  return a;
}

// The model, in double.
class PlainTransducer {
 public:
  explicit PlainTransducer(const TransducerOptions& options) : options_(options) {}

  int num_columns() const { return kTokens + static_cast<int>(options_.durations.size()); }

  // Natural-log probabilities of the tokens, then of the durations, for a frame behind `labels`.
  std::vector<double> LogProbs(const Labels& labels, const float* frame) const {
    const std::vector<double> encoded(frame, frame + kWidth);
    std::vector<double> joined =
        Plus(of_frame_.Times(encoded), of_predicted_.Times(Predict(labels)));
    for (double& value : joined) {
      value = std::tanh(value);
    }
    std::vector<double> scores = output_.Times(joined);
    Normalize(0, kTokens, scores);
    Normalize(kTokens, scores.size(), scores);
    return scores;
  }

 private:
  static void Normalize(size_t first, size_t end, std::vector<double>& scores) {
    double sum = 0;
    for (size_t i = first; i < end; ++i) {
      sum += std::exp(scores[i]);
    }
    for (size_t i = first; i < end; ++i) {
      scores[i] -= std::log(sum);
    }
  }

  const std::vector<double>& Predict(const Labels& labels) const {
    std::vector<double>& known = predicted_[labels];
    if (known.empty()) {
      known = Compute(labels);
    }
    return known;
  }

  std::vector<double> Compute(const Labels& labels) const {
    const Weight embedding("embedding", kTokens, 4);
    if (options_.predictor == Predictor::kStateless) {
      const auto at = [&labels](size_t back) {
        return labels.size() < back ? 0 : labels[labels.size() - back];
      };
      std::vector<double> read = embedding.Row(at(2));
      const std::vector<double> last = embedding.Row(at(1));
      read.insert(read.end(), last.begin(), last.end());
      return Weight("stateless", 8, kHidden).Times(read);
    }
    std::vector<double> h(kHidden, 0.25);
    std::vector<double> c(kHidden, -0.5);
    Labels tokens = {0};
    tokens.insert(tokens.end(), labels.begin(), labels.end());
    for (const int32_t token : tokens) {
      const auto gate = [&](const char* name) {
        return Plus(Weight(std::string("x.") + name, 4, kHidden).Times(embedding.Row(token)),
                    Weight(std::string("h.") + name, kHidden, kHidden).Times(h));
      };
      const std::vector<double> i = gate("i");
      const std::vector<double> f = gate("f");
      const std::vector<double> g = gate("g");
      const std::vector<double> o = gate("o");
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      for (size_t k = 0; k < kHidden; ++k) {
        c[k] = sigmoid(f[k]) * c[k] + sigmoid(i[k]) * std::tanh(g[k]);
        h[k] = sigmoid(o[k]) * std::tanh(c[k]);
      }
    }
    return h;
  }

  const TransducerOptions options_;
  mutable std::map<Labels, std::vector<double>> predicted_;
  const Weight of_frame_{"joiner.encoder", kWidth, kJoined};
  const Weight of_predicted_{"joiner.predictor", kHidden, kJoined};
  const Weight output_{"joiner.output", kJoined, num_columns()};
};

using GraphBuilder = testing_support::GraphBuilder;
using Value = ops::ValueId;

inline Value Product(GraphBuilder& graph, Value value, const Weight& weight) {
  return graph.Add("MatMul", {value, graph.Constant(weight.tensor())});
}

// The predictor's output [rows, 1, kHidden], or of a stateless one [rows, kHidden].
inline Value AddPredictor(GraphBuilder& graph, const TransducerOptions& options) {
  const Value embedding = graph.Constant(Weight("embedding", kTokens, 4).tensor());
  if (options.predictor == Predictor::kStateless) {
    const Value y = graph.Parameter("y", ops::DType::kI64, {-1, 2});
    const Value read = graph.Add("Gather", {embedding, y, graph.Int(0)});
    const Value flat = graph.Add("Reshape", {read, graph.Ints({-1, 8})}, {{"special_zero", false}});
    return Product(graph, flat, Weight("stateless", 8, kHidden));
  }
  const Value token = graph.Parameter("token", ops::DType::kI32, {-1, 1});
  // As torch has them: layers, rows, width.
  const Value h = graph.Add(
      "Squeeze", {graph.Parameter("h", ops::DType::kF32, {1, -1, kHidden}), graph.Ints({0})});
  const Value c = graph.Add(
      "Squeeze", {graph.Parameter("c", ops::DType::kF32, {1, -1, kHidden}), graph.Ints({0})});
  const Value x = graph.Add(
      "Squeeze", {graph.Add("Gather", {embedding, token, graph.Int(0)}), graph.Ints({1})});
  const auto gate = [&](const std::string& name) {
    return graph.Add("Add", {Product(graph, x, Weight("x." + name, 4, kHidden)),
                             Product(graph, h, Weight("h." + name, kHidden, kHidden))});
  };
  const auto one = [&graph](const char* op, Value value) { return graph.Add(op, {value}); };
  const Value next_c = graph.Add(
      "Add", {graph.Add("Multiply", {one("Sigmoid", gate("f")), c}),
              graph.Add("Multiply", {one("Sigmoid", gate("i")), one("Tanh", gate("g"))})});
  const Value next_h = graph.Add("Multiply", {one("Sigmoid", gate("o")), one("Tanh", next_c)});
  graph.Result("next_h", graph.Add("Unsqueeze", {next_h, graph.Ints({0})}));
  graph.Result("next_c", graph.Add("Unsqueeze", {next_c, graph.Ints({0})}));
  return graph.Add("Unsqueeze", {next_h, graph.Ints({1})});
}

// value * weight as ONNX Runtime's quantize_dynamic writes it.
inline Value QuantizedProduct(GraphBuilder& graph, Value value, const Weight& weight) {
  std::vector<int8_t> bytes;
  for (const float element : weight.values) {
    bytes.push_back(static_cast<int8_t>(element * 80));
  }
  const Value read = graph.Add("DynamicQuantizeLinear", {value}, {}, "quantized", 3);
  const Value sums =
      graph.Add("MatMulInteger",
                {read,
                 graph.Constant(ops::Tensor::Of<int8_t>({weight.rows, weight.columns}, bytes)),
                 {read.node, 2}});
  const Value floats = graph.Add("Convert", {sums}, {{"destination_type", std::string("f32")}});
  const Value scale =
      graph.Add("Multiply", {{read.node, 1}, graph.Constant(ops::Tensor::Scalar(1 / 80.0f))});
  return graph.Add("Multiply", {floats, scale});
}

// As joiners are trained: [rows, frames, 1, width] and [rows, 1, tokens, width], each expanded to
// the other's extent.
inline Value ExpandedSum(GraphBuilder& graph, Value of_frame, Value of_predicted) {
  const Value frames = graph.Add("Unsqueeze", {of_frame, graph.Ints({2})});
  const Value tokens = graph.Add("Unsqueeze", {of_predicted, graph.Ints({1})});
  const auto expanded = [&](Value value, Value other, int64_t axis) {
    const Value extent =
        graph.Add("Gather", {graph.Add("ShapeOf", {other}), graph.Ints({axis}), graph.Int(0)});
    std::vector<Value> target(4, graph.Ints({1}));
    target[static_cast<size_t>(axis)] = extent;
    return graph.Add("Broadcast", {value, graph.Add("Concat", target, {{"axis", int64_t{0}}})},
                     {{"mode", std::string("bidirectional")}});
  };
  return graph.Add("Add", {expanded(frames, tokens, 2), expanded(tokens, frames, 1)});
}

inline void AddJoiner(GraphBuilder& graph, Value predicted, const TransducerOptions& options) {
  const bool has_time = options.predictor == Predictor::kLstm;
  Value frame = graph.Parameter("frame", ops::DType::kF32,
                                !has_time             ? ops::Shape{-1, kWidth}
                                : options.width_first ? ops::Shape{-1, kWidth, -1}
                                                      : ops::Shape{-1, -1, kWidth});
  if (has_time && options.width_first) {
    frame = graph.Add("Transpose", {frame, graph.Ints({0, 2, 1})});
  }
  const Value of_frame = Product(graph, frame, Weight("joiner.encoder", kWidth, kJoined));
  const Value of_predicted =
      Product(graph, predicted, Weight("joiner.predictor", kHidden, kJoined));
  const Value sum = options.expands ? ExpandedSum(graph, of_frame, of_predicted)
                                    : graph.Add("Add", {of_frame, of_predicted});
  const int columns = kTokens + static_cast<int>(options.durations.size());
  const Value joined = graph.Add("Tanh", {sum});
  const Weight output("joiner.output", kJoined, columns);
  graph.Result("scores", options.quantizes ? QuantizedProduct(graph, joined, output)
                                           : Product(graph, joined, output));
}

inline bundle::Bundle TransducerBundle(const TransducerOptions& options) {
  bundle::Bundle bundle;
  bundle.name = "transducer";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  if (options.has_encoder) {
    GraphBuilder encoder;
    const Value source = encoder.Parameter("features", ops::DType::kF32, {-1, -1, kWidth});
    const Value unit = encoder.Constant(
        ops::Tensor::Of<float>({kWidth, kWidth}, std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
    const Value frames = encoder.Add("MatMul", {source, unit});
    encoder.Result("frames", options.width_first
                                 ? encoder.Add("Transpose", {frames, encoder.Ints({0, 2, 1})})
                                 : frames);
    bundle.encoder = encoder.Build();
    config.mutable_encoder()->set_graph("encoder.onnx");
  }
  v1::TransducerConfig& transducer = *config.mutable_transducer();
  transducer.set_frame_axis(options.width_first ? 2 : 0);
  transducer.set_max_symbols(options.max_symbols);
  if (!options.durations.empty()) {
    transducer.set_kind(v1::TRANSDUCER_KIND_TOKEN_AND_DURATION);
    transducer.mutable_durations()->Assign(options.durations.begin(), options.durations.end());
  }
  transducer.mutable_joiner()->set_encoder_input("frame");
  if (options.predictor == Predictor::kStateless) {
    transducer.set_context_size(2);
  } else {
    for (const auto& [name, start] : {std::pair{"h", 0.25f}, std::pair{"c", -0.5f}}) {
      v1::StateConfig& state = *transducer.mutable_predictor()->add_states();
      state.set_input(name);
      state.set_output(std::string("next_") + name);
      state.set_constant(start);
    }
  }
  GraphBuilder predictor;
  const Value predicted = AddPredictor(predictor, options);
  if (options.is_one_graph) {
    AddJoiner(predictor, predicted, options);
  } else {
    predictor.Result("predicted", predicted);
    GraphBuilder joiner;
    const Value given =
        joiner.Parameter("predicted", ops::DType::kF32,
                         options.predictor == Predictor::kLstm ? ops::Shape{-1, 1, kHidden}
                                                               : ops::Shape{-1, kHidden});
    AddJoiner(joiner, given, options);
    bundle.joiner = joiner.Build();
    transducer.mutable_joiner()->set_graph("joiner.onnx");
  }
  bundle.predictor = predictor.Build();
  transducer.mutable_predictor()->set_graph("predictor.onnx");
  config.mutable_target()->set_form(v1::TEXT_FORM_WHITESPACE);
  config.mutable_target()->set_vocabulary("tokens.txt");
  bundle.source = Codec(config.source());
  bundle.target = Codec(config.target(), "_\na\nb\nc\n");
  return bundle;
}

// What all alignments with at most `most` labels a frame say of every labelling; most 0: any number
// is counted that some hypothesis of `longest` labels can have.
inline std::map<Labels, Alignments> AllTransductions(const PlainTransducer& model,
                                                     const std::vector<float>& frames,
                                                     const std::vector<int>& durations, int most) {
  const auto num_frames = static_cast<int>(frames.size()) / kWidth;
  std::map<Labels, Alignments> all;
  std::map<std::pair<Labels, int>, std::vector<double>> known;
  Labels labels;
  Alignments path;
  const std::function<void(int, int, double)> walk = [&](int frame, int symbols, double log_prob) {
    if (frame >= num_frames) {
      Alignments& own = all[labels];
      own.sum += std::exp(log_prob);
      if (log_prob > own.best) {
        own.best = log_prob;
        own.frames = path.frames;
        own.durations = path.durations;
      }
      return;
    }
    auto& row = known[{labels, frame}];
    if (row.empty()) {
      row = model.LogProbs(labels, &frames[static_cast<size_t>(frame * kWidth)]);
    }
    const std::vector<double> log_probs = row;
    const auto steps = durations.empty() ? std::vector<int>{-1} : durations;
    for (size_t d = 0; d < steps.size(); ++d) {
      const double of_duration = durations.empty() ? 0 : log_probs[kTokens + d];
      // A blank moves.
      walk(frame + std::max(std::abs(steps[d]), 1), 0, log_prob + log_probs[0] + of_duration);
      for (int32_t label = 1; label < kTokens; ++label) {
        const bool is_last = symbols + 1 == most;
        const int moves = durations.empty() ? (is_last ? 1 : 0)
                          : is_last         ? std::max(steps[d], 1)
                                            : steps[d];
        labels.push_back(label);
        path.frames.push_back(frame);
        path.durations.push_back(durations.empty() ? 1 : moves);
        walk(frame + moves, moves == 0 ? symbols + 1 : 0,
             log_prob + log_probs[static_cast<size_t>(label)] + of_duration);
        labels.pop_back();
        path.frames.pop_back();
        path.durations.pop_back();
      }
    }
  };
  walk(0, 0, 0);
  return all;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_TRANSDUCER_BUNDLE_H_
