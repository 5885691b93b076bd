// ScanRow, for one row of scores. RowRules say what the request wants; row_rules.h defines their
// order.
//
// 1. ToLogarithms: probabilities and log-probabilities are checked, and become logarithms.
// 2. ChangeValues, where rules change scores: a NaN or an infinity of the model is found first,
//    since a ban must not hide it. Log-probabilities that are not renormalised are taken before any
//    rule (NormaliseFirst). ApplyRules edits scores, bans tokens, closes all that the allowed set
//    lacks, and divides by the temperature. If that leaves f32, it is repeated in f64
//    (ChangeValuesInDouble).
// 3. The log-sum-exp over all remaining values.
// 4. CollectBonuses: tokens whose rank differs from their value are kept apart.
// 5. The choice: draws (topk.h), or Select. Select looks at the largest value of each block of the
//    row and skips blocks that cannot have one of the k best: of 30,000 tokens a few blocks remain.
//    AddScores gives ranks with the scores of other models before.
// 6. Log-probabilities of watched tokens.
//
// Everything is a function of this row alone, in a fixed order of operations.
#include "ops/kernels/topk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/base/philox.h"
#include "ops/base/status.h"
#include "ops/kernels/math.h"
#include "ops/kernels/panel_scan.h"

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

namespace {

constexpr float kRounding = 0.01f;
constexpr size_t kBlock = kScanBlock;

absl::Status CheckToken(int32_t token, size_t count, absl::string_view rule) {
  if (token < 0 || static_cast<size_t>(token) >= count) {
    return Invalid(rule, ": token ", token, " is outside [0, ", count, ")");
  }
  return absl::OkStatus();
}

// The scores as logits or log-probabilities: `scores` themselves, or `values` filled with them.
absl::StatusOr<absl::Span<const float>> ToLogarithms(absl::Span<const float> scores, ScoreKind kind,
                                                     std::vector<float>& values) {
  if (kind == ScoreKind::kLogits) {
    return scores;
  }
  values.resize(scores.size());
  const bool is_log = kind == ScoreKind::kLogProbs;
  bool fits = true;
  for (size_t i = 0; i < scores.size(); ++i) {
    const float x = scores[i];
    fits = fits && (is_log ? x <= kRounding : x >= 0.0f && x <= 1.0f + kRounding);
    const float log_prob = is_log ? x : Log(x);
    values[i] = log_prob > 0.0f ? 0.0f : log_prob;
  }
  for (size_t i = 0; !fits && i < scores.size(); ++i) {
    const float x = scores[i];
    if (is_log && !(x <= kRounding)) {
      return Invalid("scores[", i, "]: ", x, " is not a log-probability, expected at most 0");
    }
    if (!is_log && !(x >= 0.0f && x <= 1.0f + kRounding)) {
      return Invalid("scores[", i, "]: ", x, " is not a probability, expected [0, 1]");
    }
  }
  return absl::Span<const float>(values);
}

bool ChangesValues(const RowRules& rules) {
  return !rules.edits.empty() || rules.has_allowed || rules.temperature != 1.0f;
}

bool Excludes(const RowRules& rules) {
  return std::any_of(rules.edits.begin(), rules.edits.end(),
                     [](const LogitEdit& edit) { return edit.kind == EditKind::kExclude; });
}

// Edits, ban, allowed set and temperature, in the order that RowRules states. T: f32 or f64.
template <typename T>
absl::Status ApplyRules(const RowRules& rules, std::vector<T>& values) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  for (const LogitEdit& edit : rules.edits) {
    BW_RETURN_IF_ERROR(CheckToken(edit.token, values.size(), "edits"));
    if (!Bars(edit)) {  // below, so that no later edit of the token lifts it
      T& x = values[static_cast<size_t>(edit.token)];
      x = ApplyEdit(edit, x);
    }
  }
  for (const LogitEdit& edit : rules.edits) {
    if (Bars(edit)) {
      values[static_cast<size_t>(edit.token)] = kNever;
    }
  }
  if (rules.has_allowed) {
    size_t next = 0;  // everything between two allowed tokens is barred
    for (const int32_t token : rules.allowed) {
      BW_RETURN_IF_ERROR(CheckToken(token, values.size(), "allowed"));
      for (; next < static_cast<size_t>(token); ++next) {
        values[next] = kNever;
      }
      next = std::max(next, static_cast<size_t>(token) + 1);
    }
    std::fill(values.begin() + static_cast<int64_t>(next), values.end(), kNever);
  }
  if (rules.temperature != 1.0f) {
    for (T& x : values) {
      x = x / rules.temperature;
    }
  }
  return absl::OkStatus();
}

// The largest value of each block; InvalidArgument naming the first NaN or +infinity.
absl::Status CheckMaxima(absl::Span<const float> values, std::vector<float>& maxima) {
  maxima.resize((values.size() + kBlock - 1) / kBlock);
  BlockMaxima(values, maxima.data());
  const bool bad = std::find(maxima.begin(), maxima.end(), kInfinity) != maxima.end();
  for (size_t i = 0; bad && i < values.size(); ++i) {
    if (!(values[i] < kInfinity)) {
      return Invalid("scores[", i, "]: ", values[i], " is not a number below infinity");
    }
  }
  return absl::OkStatus();
}

// x - log-sum-exp, in place; the caller has checked the values, whose blocks' largest are `maxima`.
void ToLogProbs(absl::Span<const float> maxima, std::vector<float>& values) {
  const float shift = LogSumExp(values, maxima);
  for (float& x : values) {
    x = x == -kInfinity ? x : x - shift;
  }
}

// Log-probabilities of the tokens that are not excluded, where rules apply to log-probabilities.
absl::Status NormaliseFirst(const RowRules& rules, bool is_tempered, RowScan& result) {
  bool any = false;
  for (const LogitEdit& edit : rules.edits) {
    BW_RETURN_IF_ERROR(CheckToken(edit.token, result.values.size(), "edits"));
    if (edit.kind == EditKind::kExclude) {
      result.values[static_cast<size_t>(edit.token)] = -kInfinity;
      any = true;
    }
  }
  if (any) {
    BlockMaxima(result.values, result.block_maxima.data());
  }
  if (is_tempered && !result.values.empty()) {
    // Minus the largest, which changes no log-probability: so that no quotient leaves f32.
    const float largest = *std::max_element(result.block_maxima.begin(), result.block_maxima.end());
    for (float& x : result.values) {
      x = x == -kInfinity ? x : (x - largest) / rules.temperature;
    }
    BlockMaxima(result.values, result.block_maxima.data());
  }
  ToLogProbs(result.block_maxima, result.values);
  return absl::OkStatus();
}

// Whether the largest of all is a number.
bool InRange(absl::Span<const float> maxima) {
  return maxima.empty() || std::isfinite(*std::max_element(maxima.begin(), maxima.end()));
}

// Applies the rules in f64, for scores that the rules drive beyond f32, as a temperature of 0.01
// does a logit of 3e38. The row's largest is subtracted, which changes no log-probability. `values`
// stay as they are where that does not help: every token is barred, or a rule itself is not finite.
absl::Status ChangeValuesInDouble(absl::Span<const float> scores, ScoreKind kind,
                                  const RowRules& rules, std::vector<float>& values) {
  std::vector<float> scratch;
  BW_ASSIGN_OR_RETURN(const absl::Span<const float> logarithms,
                      ToLogarithms(scores, kind, scratch));
  std::vector<double> wide(logarithms.begin(), logarithms.end());
  BW_RETURN_IF_ERROR(ApplyRules(rules, wide));
  const double largest = *std::max_element(wide.begin(), wide.end());
  for (size_t i = 0; std::isfinite(largest) && i < wide.size(); ++i) {
    values[i] = static_cast<float>(wide[i] - largest);
  }
  return absl::OkStatus();
}

// Applies the rules to the logarithms, into result.values.
absl::Status ChangeValues(absl::Span<const float> logarithms, ScoreKind kind, const RowRules& rules,
                          RowScan& result) {
  // Before any rule: a rule that bans the token must not hide a broken model.
  BW_RETURN_IF_ERROR(CheckMaxima(logarithms, result.block_maxima));
  if (logarithms.data() != result.values.data()) {
    result.values.assign(logarithms.begin(), logarithms.end());
  }
  const bool is_tempered =
      !rules.renormalize && rules.temperature_first && rules.temperature != 1.0f;
  if (!rules.renormalize && (kind == ScoreKind::kLogits || Excludes(rules) || is_tempered)) {
    BW_RETURN_IF_ERROR(NormaliseFirst(rules, is_tempered, result));
  }
  RowRules rest = rules;
  rest.temperature = is_tempered ? 1.0f : rules.temperature;
  return ApplyRules(rest, result.values);
}

// Keeps `best` sorted and at most k long.
void Insert(const Candidate& candidate, size_t k, std::vector<Candidate>& best) {
  if (best.size() == k) {
    if (k == 0 || !Better(candidate, best.back())) {
      return;
    }
    best.pop_back();
  }
  best.insert(std::upper_bound(best.begin(), best.end(), candidate, Better), candidate);
}

// Collects the tokens with a bonus in a separate list: their order is not that of their values.
absl::Status CollectBonuses(absl::Span<const RankBonus> bonuses, absl::Span<const float> values,
                            float log_sum_exp, std::vector<Candidate>& set) {
  set.clear();
  for (const RankBonus& bonus : bonuses) {
    BW_RETURN_IF_ERROR(CheckToken(bonus.token, values.size(), "bonuses"));
    const float value = values[static_cast<size_t>(bonus.token)];
    const float log_prob = value == -kInfinity ? -kInfinity : value - log_sum_exp;
    const float mixed = bonus.mass > 0 ? Log(Exp(log_prob) + bonus.mass) : log_prob;
    const float score = log_prob == -kInfinity ? -kInfinity : mixed + bonus.value;
    if (std::isnan(score) || score == kInfinity) {
      return Invalid("bonuses: ", bonus.value, " for token ", bonus.token, " is not finite");
    }
    set.push_back({bonus.token, log_prob, score});
  }
  std::sort(set.begin(), set.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  return absl::OkStatus();
}

// Rank scores are ranks[i] - shift: the values themselves, less the log-sum-exp, or what AddScores
// made of them. f32 subtraction is monotone, so the largest value of a block has its largest rank.
void Select(absl::Span<const float> values, absl::Span<const float> ranks, float shift, size_t k,
            RowScan& result) {
  size_t next_bonus = 0;
  const std::vector<Candidate>& bonuses = result.bonus_set;
  for (size_t first = 0; first < ranks.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, ranks.size());
    const float largest = result.block_maxima[first / kBlock];
    const bool may_enter =
        largest > -kInfinity &&
        (result.best.size() < k || largest - shift >= result.best.back().rank_score);
    for (size_t i = first; may_enter && i < end; ++i) {
      while (next_bonus < bonuses.size() && static_cast<size_t>(bonuses[next_bonus].token) < i) {
        ++next_bonus;
      }
      const bool has_bonus =
          next_bonus < bonuses.size() && static_cast<size_t>(bonuses[next_bonus].token) == i;
      if (ranks[i] > -kInfinity && !has_bonus) {
        Insert({static_cast<int32_t>(i), values[i] - result.log_sum_exp, ranks[i] - shift}, k,
               result.best);
      }
    }
  }
  for (const Candidate& candidate : bonuses) {
    if (candidate.rank_score > -kInfinity) {
      Insert(candidate, k, result.best);
    }
  }
}

// result.ranks: log-probabilities with what other scorers add to them.
absl::Status AddScores(absl::Span<const float> values, absl::Span<const float> added,
                       RowScan& result) {
  if (added.size() != values.size()) {
    return Invalid("added: ", added.size(), " elements for ", values.size(), " tokens");
  }
  result.ranks.resize(values.size());
  const float* const x = values.data();
  const float* const more = added.data();
  float* const ranks = result.ranks.data();
  const size_t count = values.size();
  const float shift = result.log_sum_exp;
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      ranks[i] = x[i] == -kInfinity ? -kInfinity : (x[i] - shift) + more[i];
    }
  });
  for (Candidate& candidate : result.bonus_set) {
    candidate.rank_score += added[static_cast<size_t>(candidate.token)];
  }
  return Annotate(CheckMaxima(result.ranks, result.block_maxima), "added");
}

}  // namespace

absl::Status ScanRow(absl::Span<const float> scores, ScoreKind kind, const RowRules& rules, int k,
                     RowScan& result) {
  result.best.clear();
  result.watched.clear();
  if (k < 0 || !(rules.temperature > 0)) {
    return Invalid("k ", k, " and temperature ", rules.temperature,
                   " must not be negative, and temperature not 0");
  }
  // 1. Logarithms, and the rules.
  BW_ASSIGN_OR_RETURN(absl::Span<const float> values, ToLogarithms(scores, kind, result.values));
  const bool changes = ChangesValues(rules);
  if (changes) {
    BW_RETURN_IF_ERROR(ChangeValues(values, kind, rules, result));
    values = result.values;
  }
  absl::Status finite = CheckMaxima(values, result.block_maxima);
  if (changes && rules.renormalize && !InRange(result.block_maxima)) {
    BW_RETURN_IF_ERROR(ChangeValuesInDouble(scores, kind, rules, result.values));
    finite = CheckMaxima(values, result.block_maxima);
  }
  BW_RETURN_IF_ERROR(finite);
  // 2. The log-sum-exp, and tokens with bonuses.
  const bool normalised = changes ? !rules.renormalize : kind != ScoreKind::kLogits;
  result.log_sum_exp = normalised ? 0.0f : LogSumExp(values, result.block_maxima);
  BW_RETURN_IF_ERROR(CollectBonuses(rules.bonuses, values, result.log_sum_exp, result.bonus_set));
  // 3. The choice.
  if (rules.draw.kind != DrawKind::kNone) {
    DrawTokens(values, rules.draw, k, result);
  } else if (k > 0) {
    result.best.reserve(std::min(static_cast<size_t>(k), values.size()));
    if (rules.added.empty()) {
      Select(values, values, result.log_sum_exp, static_cast<size_t>(k), result);
    } else {
      BW_RETURN_IF_ERROR(AddScores(values, rules.added, result));
      Select(values, result.ranks, 0, static_cast<size_t>(k), result);
    }
  }
  // 4. Watched tokens.
  for (const int32_t token : rules.watched) {
    BW_RETURN_IF_ERROR(CheckToken(token, values.size(), "watched"));
    const float value = values[static_cast<size_t>(token)];
    result.watched.push_back(value == -kInfinity ? -kInfinity : value - result.log_sum_exp);
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
