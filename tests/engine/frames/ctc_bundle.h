// A CTC model as plain as can be: a frame's scores are its features times a weight. What it says of
// any labels is written down here a second time, by going through every alignment.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_CTC_BUNDLE_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_CTC_BUNDLE_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/bundle/bundle.h"
#include "include/beamwright/engine.h"
#include "ops/base/check.h"
#include "tests/support/graph_builder.h"

namespace beamwright::engine_testing {

using Labels = std::vector<int32_t>;

inline constexpr int kFeatures = 3;
inline constexpr int kColumns = 5;  // the blank among them

struct CtcOptions {
  bool has_encoder = true;
  bool frames_first = false;  // scores [frames, rows, columns]
  int blank = 0;              // kColumns - 1: no token of the vocabulary, which has one less
};

// [kFeatures, kColumns]
inline std::vector<float> CtcWeight() {
  std::mt19937 random(25);
  std::vector<float> weight(kFeatures * kColumns);
  for (float& value : weight) {
    value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500;
  }
  return weight;
}

inline std::shared_ptr<const bundle::TextCodec> Codec(const v1::TextConfig& config,
                                                      const std::string& vocabulary = "") {
  auto codec = bundle::TextCodec::Create(config, vocabulary);
  BW_CHECK(codec.ok());
  return *std::move(codec);
}

inline bundle::Bundle CtcBundle(const CtcOptions& options) {
  bundle::Bundle bundle;
  bundle.name = "ctc";
  bundle.version = "1";
  v1::ModelConfig& config = bundle.config;
  config.set_format_version(1);
  config.mutable_ctc()->set_blank(options.blank);
  if (options.has_encoder) {
    testing_support::GraphBuilder graph;
    const auto source = graph.Parameter("features", ops::DType::kF32, {-1, -1, kFeatures});
    const auto weight = graph.Constant(ops::Tensor::Of<float>({kFeatures, kColumns}, CtcWeight()));
    const auto scores = graph.Add("MatMul", {source, weight});
    graph.Result("scores", options.frames_first
                               ? graph.Add("Transpose", {scores, graph.Ints({1, 0, 2})})
                               : scores);
    bundle.encoder = graph.Build();
    config.mutable_encoder()->set_graph("encoder.onnx");
  } else {
    config.mutable_ctc()->set_kind(v1::LOGITS_KIND_LOG_PROBS);
  }
  config.mutable_target()->set_form(v1::TEXT_FORM_WHITESPACE);
  config.mutable_target()->set_vocabulary("tokens.txt");
  const bool is_token = options.blank < kColumns - 1;
  bundle.source = Codec(config.source());
  bundle.target = Codec(config.target(), is_token ? "_\na\nb\nc\nd\n" : "a\nb\nc\nd\n");
  return bundle;
}

// [frames, kFeatures]
inline std::vector<float> RandomFeatures(int frames, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> features(static_cast<size_t>(frames * kFeatures));
  for (float& value : features) {
    value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
  }
  return features;
}

// Natural-log probabilities [frames, kColumns], in double.
inline std::vector<double> CtcLogProbs(const std::vector<float>& features) {
  const std::vector<float> weight = CtcWeight();
  std::vector<double> log_probs;
  for (size_t frame = 0; frame < features.size(); frame += kFeatures) {
    double logits[kColumns] = {};
    double sum = 0;
    for (size_t column = 0; column < kColumns; ++column) {
      for (size_t i = 0; i < kFeatures; ++i) {
        logits[column] += double{features[frame + i]} * double{weight[i * kColumns + column]};
      }
      sum += std::exp(logits[column]);
    }
    for (const double logit : logits) {
      log_probs.push_back(logit - std::log(sum));
    }
  }
  return log_probs;
}

// What all alignments say of some labels.
struct Alignments {
  double sum = 0;  // of probabilities
  double best = -std::numeric_limits<double>::infinity();
  std::vector<int> frames;     // of the best: where each label begins
  std::vector<int> durations;  // and how many frames say it
};

// Of every labelling, from all kColumns^frames ways to spell it.
inline std::map<Labels, Alignments> AllLabellings(const std::vector<double>& log_probs, int blank) {
  const size_t num_frames = log_probs.size() / kColumns;
  std::map<Labels, Alignments> all;
  const auto count = static_cast<int64_t>(std::pow(kColumns, num_frames));
  for (int64_t number = 0; number < count; ++number) {
    double log_prob = 0;
    Labels labels;
    std::vector<int> frames;
    std::vector<int> durations;
    int last = blank;
    int64_t rest = number;
    for (size_t frame = 0; frame < num_frames; ++frame, rest /= kColumns) {
      const auto column = static_cast<int>(rest % kColumns);
      log_prob += log_probs[frame * kColumns + static_cast<size_t>(column)];
      if (column != blank && column == last) {
        ++durations.back();
      } else if (column != blank) {
        labels.push_back(column);
        frames.push_back(static_cast<int>(frame));
        durations.push_back(1);
      }
      last = column;
    }
    Alignments& own = all[labels];
    own.sum += std::exp(log_prob);
    if (log_prob > own.best) {
      own.best = log_prob;
      own.frames = frames;
      own.durations = durations;
    }
  }
  return all;
}

inline v1::Source FeatureSource(const std::vector<float>& values, int width = kFeatures) {
  v1::Source source;
  v1::Tensor& tensor = *source.mutable_features();
  tensor.set_dtype("f32");
  tensor.add_shape(static_cast<int64_t>(values.size()) / width);
  tensor.add_shape(width);
  tensor.set_data(values.data(), values.size() * sizeof(float));
  return source;
}

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_CTC_BUNDLE_H_
