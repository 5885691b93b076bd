// Small random models in Marian's format: a transformer encoder and a decoder of recurrent
// cells or self-attention, with peaked weights, so that answers differ from source to source.
// Seeded; nothing of them is trained.
#ifndef BEAMWRIGHT_TESTS_SUPPORT_MARIAN_MODEL_H_
#define BEAMWRIGHT_TESTS_SUPPORT_MARIAN_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace beamwright::testing_support {

struct MarianMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;  // row-major
};

enum class MarianDecoder {
  kSsru,
  kGru,
  kSelfAttention,  // and swish, or gelu where tables are not tied
};

struct MarianModel {
  int width = 16;
  int heads = 4;
  int ffn = 24;
  int encoder_layers = 2;
  int decoder_layers = 2;
  int tokens = 40;
  // One table for source, target and output; else three.
  bool tied = true;
  MarianDecoder decoder = MarianDecoder::kSsru;
  std::map<std::string, MarianMatrix> arrays;
  std::string further_options;  // lines of YAML
  std::string other_options;    // in the place of all others, if not empty

  bool attends() const { return decoder == MarianDecoder::kSelfAttention; }
  const char* activation() const { return !attends() ? "relu" : tied ? "swish" : "gelu"; }

  std::string Options() const {
    if (!other_options.empty()) {
      return absl::StrCat(other_options, further_options);
    }
    return absl::StrCat(
        "type: transformer\ndim-emb: ", width, "\ndim-vocabs:\n  - ", tokens, "\n  - ", tokens,
        "\nenc-depth: ", encoder_layers, "\ndec-depth: ", decoder_layers,
        "\ndec-cell: ", decoder == MarianDecoder::kSsru ? "ssru" : "gru",
        "\ntransformer-decoder-autoreg: ", attends() ? "self-attention" : "rnn",
        "\ntransformer-heads: ", heads, "\ntransformer-dim-ffn: ", ffn,
        "\ntransformer-ffn-activation: ", activation(),
        "\ntransformer-preprocess: \"\"\ntransformer-postprocess: dan\ntransformer-tied-layers:\n  "
        "[]\ninput-types:\n  []\ntied-embeddings-all: ",
        tied ? "true" : "false", "\nversion: v1.9.0\n", further_options);
  }
};

inline MarianModel RandomMarianModel(unsigned seed, bool tied = true,
                                     MarianDecoder decoder = MarianDecoder::kSsru) {
  MarianModel model;
  model.tied = tied;
  model.decoder = decoder;
  std::mt19937 random(seed);
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns, double size,
                       double mean = 0) {
    MarianMatrix& matrix = model.arrays[name];
    matrix = {rows, columns, std::vector<float>(static_cast<size_t>(rows * columns))};
    // Twelve uniform numbers: the same on every standard library, unlike its distributions.
    for (float& value : matrix.values) {
      double sum = -6;
      for (int i = 0; i < 12; ++i) {
        sum += static_cast<double>(random()) / 4294967296.0;
      }
      value = static_cast<float>(mean + size * sum);
    }
  };
  const int d = model.width;
  const double even = 1.2 / std::sqrt(d);
  const auto norm = [&](const std::string& name, double scale = 1) {
    add(name + "_ln_scale", 1, d, 0.2, scale);
    add(name + "_ln_bias", 1, d, 0.1);
  };
  const auto attention = [&](const std::string& name) {
    for (const char* which : {"q", "k", "v", "o"}) {
      add(absl::StrCat(name, "_W", which), d, d, 2 * even);
      add(absl::StrCat(name, "_b", which), 1, d, 0.1);
    }
    norm(name + "_Wo");
  };
  const auto feed_forward = [&](const std::string& layer, double scale) {
    add(layer + "_ffn_W1", d, model.ffn, 2 * even);
    add(layer + "_ffn_b1", 1, model.ffn, 0.1);
    add(layer + "_ffn_W2", model.ffn, d, 2 * even);
    add(layer + "_ffn_b2", 1, d, 0.1);
    norm(layer + "_ffn_ffn", scale);
  };
  for (const char* table : {"Wemb", "encoder_Wemb", "decoder_Wemb"}) {
    if (tied == (std::string(table) == "Wemb")) {
      add(table, model.tokens, d, 0.3);
    }
  }
  if (!tied) {
    add("decoder_ff_logit_out_W", d, model.tokens, 0.3);
  }
  add("decoder_ff_logit_out_b", 1, model.tokens, 0.5);
  for (int i = 1; i <= model.encoder_layers; ++i) {
    const std::string layer = absl::StrCat("encoder_l", i);
    attention(layer + "_self");
    feed_forward(layer, 1);
  }
  for (int i = 1; i <= model.decoder_layers; ++i) {
    const std::string layer = absl::StrCat("decoder_l", i);
    if (model.attends()) {
      attention(layer + "_self");
    } else if (decoder == MarianDecoder::kGru) {
      for (const char* which : {"W", "U"}) {
        add(absl::StrCat(layer, "_rnn_", which), d, 2 * d, even);
        add(absl::StrCat(layer, "_rnn_", which, "x"), d, d, 2 * even);
      }
      add(layer + "_rnn_b", 1, 2 * d, 0.1);
      add(layer + "_rnn_bx", 1, d, 0.1);
    } else {
      add(layer + "_rnn_W", d, d, 3 * even);
      add(layer + "_rnn_Wf", d, d, even);
      add(layer + "_rnn_bf", 1, d, 0.1);
    }
    if (!model.attends()) {
      norm(layer + "_rnn_ffn");
    }
    attention(layer + "_context");
    feed_forward(layer, i == model.decoder_layers ? 6 : 1);
  }
  return model;
}

// An array as a file holds it.
struct MarianItem {
  std::string name;
  uint64_t type = 0;
  std::vector<int32_t> shape;
  std::string bytes;
};

// A .bin file of these arrays.
inline std::string MarianBin(const std::vector<MarianItem>& items) {
  constexpr size_t kAlignment = 256;
  std::string out;
  const auto number = [&](uint64_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const auto pad = [&] { out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment); };
  number(1);
  number(items.size());
  for (const MarianItem& item : items) {
    number(item.name.size() + 1);
    number(item.type);
    number(item.shape.size());
    number((item.bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  for (const MarianItem& item : items) {
    out.append(item.name.c_str(), item.name.size() + 1);
  }
  for (const MarianItem& item : items) {
    out.append(reinterpret_cast<const char*>(item.shape.data()),
               item.shape.size() * sizeof(int32_t));
  }
  number(kAlignment - (out.size() + sizeof(uint64_t)) % kAlignment);
  out.resize(out.size() + kAlignment - out.size() % kAlignment);
  for (const MarianItem& item : items) {
    out += item.bytes;
    pad();
  }
  return out;
}

inline bool IsMarianWeight(const std::string& name) {
  const size_t at = name.rfind("_W");
  return absl::EndsWith(name, "Wemb") ||
         (at != std::string::npos && name.size() <= at + 3 && !absl::EndsWith(name, "_ln"));
}

// The integers of a matrix in 8 bits, [-127, 127], and what they are divided by.
inline float MarianQuantise(const MarianMatrix& matrix, std::vector<int8_t>& integers) {
  float largest = 0;
  for (const float value : matrix.values) {
    largest = std::max(largest, std::fabs(value));
  }
  const float multiplier = 127.0f / largest;
  integers.clear();
  for (const float value : matrix.values) {
    integers.push_back(static_cast<int8_t>(std::lrint(value * multiplier)));
  }
  return multiplier;
}

// quantised: matrices are intgemm8, and there are scales of activations.
inline std::vector<MarianItem> MarianItems(const MarianModel& model, bool quantised) {
  std::vector<MarianItem> items;
  for (const auto& [name, matrix] : model.arrays) {
    MarianItem item{
        name, 0x404, {static_cast<int32_t>(matrix.rows), static_cast<int32_t>(matrix.columns)}, ""};
    if (quantised && IsMarianWeight(name)) {
      std::vector<int8_t> integers;
      const float multiplier = MarianQuantise(matrix, integers);
      const bool is_table = absl::EndsWith(name, "Wemb");
      for (int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
        // Matrices stand transposed, columns one behind the other.
        const int64_t at = is_table ? i : i % matrix.rows * matrix.columns + i / matrix.rows;
        item.bytes.push_back(static_cast<char>(integers[static_cast<size_t>(at)]));
      }
      item.bytes.append(reinterpret_cast<const char*>(&multiplier), sizeof(multiplier));
      item.type = 0x4101;
      items.push_back({name + "_QuantMultA", 0x404, {1, 1}, std::string("\0\0\x80\x3f", 4)});
    } else {
      item.bytes.assign(reinterpret_cast<const char*>(matrix.values.data()),
                        matrix.values.size() * sizeof(float));
    }
    items.push_back(std::move(item));
  }
  const std::string yaml = model.Options() + std::string(1, '\0');
  items.push_back({"special:model.yml", 0x101, {static_cast<int32_t>(yaml.size())}, yaml});
  return items;
}

// The model with the weights that its 8-bit file stands for.
inline MarianModel MarianDequantised(MarianModel model) {
  for (auto& [name, matrix] : model.arrays) {
    if (IsMarianWeight(name)) {
      std::vector<int8_t> integers;
      const float multiplier = MarianQuantise(matrix, integers);
      for (size_t i = 0; i < integers.size(); ++i) {
        matrix.values[i] = static_cast<float>(integers[i]) / multiplier;
      }
    }
  }
  return model;
}

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_SUPPORT_MARIAN_MODEL_H_
