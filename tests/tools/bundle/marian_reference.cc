#include "tests/tools/bundle/marian_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace beamwright::testing_support {
namespace {

double LogSumExp(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) {
    sum += std::exp(value - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

MarianReference::Vector MarianReference::Affine(const Vector& x, const std::string& w,
                                                const std::string& b) const {
  const MarianMatrix& weight = Array(w);
  Vector y(static_cast<size_t>(weight.columns));
  for (size_t n = 0; n < y.size(); ++n) {
    y[n] = b.empty() ? 0 : double{Array(b).values[n]};
    for (size_t k = 0; k < x.size(); ++k) {
      y[n] += x[k] * double{weight.values[k * y.size() + n]};
    }
  }
  return y;
}

MarianReference::Vector MarianReference::AddedNorm(Vector x, const Vector& input,
                                                   const std::string& name) const {
  double mean = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] += input[i];
    mean += x[i] / static_cast<double>(x.size());
  }
  double variance = 0;
  for (const double value : x) {
    variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] =
        double{Array(name + "_ln_scale").values[i]} * (x[i] - mean) / std::sqrt(variance + 1e-6) +
        double{Array(name + "_ln_bias").values[i]};
  }
  return x;
}

MarianReference::Vector MarianReference::FeedForward(const Vector& x,
                                                     const std::string& layer) const {
  const std::string name = layer + "_ffn";
  Vector y = Affine(x, name + "_W1", name + "_b1");
  for (double& value : y) {
    value = !model_.attends() ? std::max(value, 0.0)
            : model_.tied     ? value / (1 + std::exp(-value))
                              : value / 2 * std::erfc(-value / std::sqrt(2.0));
  }
  return AddedNorm(Affine(y, name + "_W2", name + "_b2"), x, name + "_ffn");
}

MarianReference::Vector MarianReference::Attention(const Vector& x, const Rows& memory,
                                                   const std::string& name) const {
  const Vector query = Affine(x, name + "_Wq", name + "_bq");
  Rows keys;
  Rows values;
  for (const Vector& row : memory) {
    keys.push_back(Affine(row, name + "_Wk", name + "_bk"));
    values.push_back(Affine(row, name + "_Wv", name + "_bv"));
  }
  Vector read(x.size());
  const size_t depth = x.size() / static_cast<size_t>(model_.heads);
  for (size_t first = 0; first < x.size(); first += depth) {
    Vector scores(memory.size());
    for (size_t t = 0; t < memory.size(); ++t) {
      for (size_t i = first; i < first + depth; ++i) {
        scores[t] += query[i] * keys[t][i] / std::sqrt(static_cast<double>(depth));
      }
    }
    const double sum = LogSumExp(scores);
    for (size_t t = 0; t < memory.size(); ++t) {
      for (size_t i = first; i < first + depth; ++i) {
        read[i] += std::exp(scores[t] - sum) * values[t][i];
      }
    }
  }
  return AddedNorm(Affine(read, name + "_Wo", name + "_bo"), x, name + "_Wo");
}

MarianReference::Vector MarianReference::Input(const std::string& table, int32_t token,
                                               int position, bool is_empty) const {
  const auto width = static_cast<size_t>(model_.width);
  const size_t half = width / 2;
  Vector x(width);
  for (size_t i = 0; i < width; ++i) {
    const double exponent = static_cast<double>(i % half) / (static_cast<double>(half) - 1);
    const double angle = position * std::pow(10.0, -4 * exponent);
    const double embedded = double{Array(table).values[static_cast<size_t>(token) * width + i]} *
                            std::sqrt(static_cast<double>(width));
    x[i] = (is_empty ? 0 : embedded) + (i < half ? std::sin(angle) : std::cos(angle));
  }
  return x;
}

MarianReference::Search MarianReference::Start(const std::vector<int32_t>& source) const {
  Search search;
  for (size_t t = 0; t < source.size(); ++t) {
    search.memory.push_back(
        Input(model_.tied ? "Wemb" : "encoder_Wemb", source[t], static_cast<int>(t), false));
  }
  for (int i = 1; i <= model_.encoder_layers; ++i) {
    const std::string layer = absl::StrCat("encoder_l", i);
    Rows next;
    for (const Vector& row : search.memory) {
      next.push_back(FeedForward(Attention(row, search.memory, layer + "_self"), layer));
    }
    search.memory = std::move(next);
  }
  search.read.resize(static_cast<size_t>(model_.decoder_layers));
  search.cells.assign(static_cast<size_t>(model_.decoder_layers),
                      Vector(static_cast<size_t>(model_.width)));
  return search;
}

MarianReference::Vector MarianReference::Cell(const Vector& x, const std::string& name,
                                              Vector& cell) const {
  const size_t width = cell.size();
  const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
  Vector read(width);
  if (model_.decoder == MarianDecoder::kSsru) {
    const Vector forget = Affine(x, name + "_Wf", name + "_bf");
    const Vector input = Affine(x, name + "_W", "");
    for (size_t i = 0; i < width; ++i) {
      cell[i] = sigmoid(forget[i]) * cell[i] + (1 - sigmoid(forget[i])) * input[i];
      read[i] = std::max(cell[i], 0.0);
    }
    return read;
  }
  const Vector gates = Affine(x, name + "_W", name + "_b");
  const Vector state_gates = Affine(cell, name + "_U", "");
  const Vector input = Affine(x, name + "_Wx", name + "_bx");
  const Vector kept = Affine(cell, name + "_Ux", "");
  for (size_t i = 0; i < width; ++i) {
    const double reset = sigmoid(gates[i] + state_gates[i]);
    const double update = sigmoid(gates[width + i] + state_gates[width + i]);
    read[i] = (1 - update) * std::tanh(input[i] + reset * kept[i]) + update * cell[i];
  }
  cell = read;
  return read;
}

MarianReference::Vector MarianReference::Step(Search& search) const {
  const std::string table = model_.tied ? "Wemb" : "decoder_Wemb";
  Vector x = Input(table, search.token, search.position, search.position == 0);
  ++search.position;
  for (size_t i = 0; i < search.cells.size(); ++i) {
    const std::string layer = absl::StrCat("decoder_l", i + 1);
    Vector y;
    if (model_.attends()) {
      search.read[i].push_back(x);
      y = Attention(x, search.read[i], layer + "_self");
    } else {
      const Vector read = Cell(x, layer + "_rnn", search.cells[i]);
      y = AddedNorm(read, x, layer + "_rnn_ffn");
    }
    x = FeedForward(Attention(y, search.memory, layer + "_context"), layer);
  }
  const MarianMatrix& bias = Array("decoder_ff_logit_out_b");
  if (!model_.tied) {
    return Affine(x, "decoder_ff_logit_out_W", "decoder_ff_logit_out_b");
  }
  Vector logits(static_cast<size_t>(model_.tokens));
  for (size_t n = 0; n < logits.size(); ++n) {
    logits[n] = double{bias.values[n]};
    for (size_t k = 0; k < x.size(); ++k) {
      logits[n] += x[k] * double{Array(table).values[n * x.size() + k]};
    }
  }
  return logits;
}

MarianReference::Answer MarianReference::Greedy(const std::vector<int32_t>& source, size_t limit,
                                                const std::vector<int32_t>& open) const {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Search search = Start(source);
  Answer answer;
  while (answer.tokens.size() < limit) {
    Vector logits = Step(search);
    double sum = LogSumExp(logits);
    for (size_t n = 0; n < logits.size(); ++n) {
      const bool is_open = open.empty() || std::find(open.begin(), open.end(),
                                                     static_cast<int32_t>(n)) != open.end();
      logits[n] = is_open && n != 1 ? logits[n] : kNever;
    }
    sum = open.empty() ? sum : LogSumExp(logits);
    Vector sorted = logits;
    std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
    answer.least_margin = std::min(answer.least_margin, sorted[0] - sorted[1]);
    const auto best = std::max_element(logits.begin(), logits.end());
    search.token = static_cast<int32_t>(best - logits.begin());
    answer.tokens.push_back(search.token);
    answer.log_prob += *best - sum;
    if (search.token == 0) {
      break;
    }
  }
  return answer;
}

double MarianReference::Score(const std::vector<int32_t>& source,
                              const std::vector<int32_t>& target) const {
  Search search = Start(source);
  double log_prob = 0;
  for (const int32_t token : target) {
    const Vector logits = Step(search);
    log_prob += logits[static_cast<size_t>(token)] - LogSumExp(logits);
    search.token = token;
  }
  return log_prob;
}

}  // namespace beamwright::testing_support
