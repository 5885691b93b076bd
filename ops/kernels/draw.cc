#include "ops/kernels/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/philox.h"

namespace beamwright::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool Better(const Candidate& a, const Candidate& b) {
  return a.rank_score > b.rank_score || (a.rank_score == b.rank_score && a.token < b.token);
}

// The k best, sorted.
void KeepBest(size_t k, std::vector<Candidate>& tokens) {
  if (k < tokens.size()) {
    std::nth_element(tokens.begin(), tokens.begin() + static_cast<int64_t>(k), tokens.end(),
                     Better);
    tokens.resize(k);
  }
  std::sort(tokens.begin(), tokens.end(), Better);
}

double Probability(const Candidate& candidate) {
  return std::exp(static_cast<double>(candidate.log_prob));
}

double Mass(const std::vector<Candidate>& tokens) {
  double mass = 0;
  for (const Candidate& candidate : tokens) {
    mass += Probability(candidate);
  }
  return mass;
}

void Truncate(const RowDraw& draw, std::vector<Candidate>& tokens) {
  if (draw.top_k == 0 && draw.top_p >= 1 && draw.min_p <= 0) {
    return;
  }
  KeepBest(draw.top_k == 0 ? tokens.size() : static_cast<size_t>(draw.top_k), tokens);
  if (draw.top_p < 1) {
    const double enough = static_cast<double>(draw.top_p) * Mass(tokens);
    double mass = 0;
    size_t kept = 0;
    do {  // the best always stays
      mass += Probability(tokens[kept++]);
    } while (kept < tokens.size() && mass < enough);
    tokens.resize(kept);
  }
  const double least = static_cast<double>(draw.min_p) * Probability(tokens[0]);
  while (Probability(tokens.back()) < least) {
    tokens.pop_back();
  }
}

// The token at which the running mass passes the uniform number's share of the whole.
const Candidate& Choose(const std::vector<Candidate>& tokens, double share) {
  double left = share * Mass(tokens);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    left -= Probability(tokens[i]);
    if (left < 0) {
      return tokens[i];
    }
  }
  return tokens.back();
}

}  // namespace

void DrawTokens(absl::Span<const float> values, const RowDraw& draw, int k, RowScan& result) {
  std::vector<Candidate>& tokens = result.bonus_set;
  tokens.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    const float log_prob = values[i] - result.log_sum_exp;
    if (log_prob > -kInfinity) {
      tokens.push_back({static_cast<int32_t>(i), log_prob, log_prob});
    }
  }
  if (tokens.empty()) {
    return;
  }
  if (draw.kind == DrawKind::kGumbel) {
    for (Candidate& candidate : tokens) {
      const PhiloxCounter counter = {static_cast<uint32_t>(candidate.token), draw.stream,
                                     draw.position, 1};
      const double noise = -std::log(-std::log(PhiloxUniform(counter, draw.seed)));
      candidate.rank_score = static_cast<float>(candidate.log_prob + noise);
    }
    KeepBest(static_cast<size_t>(k), tokens);
    result.best.assign(tokens.begin(), tokens.end());
    return;
  }
  Truncate(draw, tokens);
  for (int i = 0; i < draw.count; ++i) {
    const PhiloxCounter counter = {0, draw.stream + static_cast<uint32_t>(i), draw.position, 0};
    result.best.push_back(Choose(tokens, PhiloxUniform(counter, draw.seed)));
  }
}

}  // namespace beamwright::ops
