#include "tests/server/search/naive_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace beamwright::search_testing {
namespace {

using search::LengthPenalty;
using search::SearchOptions;
using search::StopMode;
using Tokens = std::vector<int32_t>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool Contains(const Tokens& tokens, int32_t token) {
  return std::count(tokens.begin(), tokens.end(), token) > 0;
}

bool EndsWith(const Tokens& tokens, const Tokens& ending) {
  return tokens.size() >= ending.size() &&
         Tokens(tokens.end() - static_cast<int64_t>(ending.size()), tokens.end()) == ending;
}

Tokens With(Tokens tokens, int32_t token) {
  tokens.push_back(token);
  return tokens;
}

// Whether `token` must not follow `tokens`. An n-gram that a given prefix repeats by itself is not
// the search's doing: only the new one counts.
bool Forbidden(const SearchOptions& options, const Tokens& tokens, int num_generated,
               int32_t token) {
  const search::ProcessorOptions& p = options.processors;
  const Tokens next = With(tokens, token);
  const size_t n = static_cast<size_t>(p.no_repeat_ngram);
  if (n > 0 && next.size() > n) {
    const Tokens gram(next.end() - static_cast<int64_t>(n), next.end());
    if (std::search(next.begin(), next.end() - 1, gram.begin(), gram.end()) != next.end() - 1) {
      return true;
    }
  }
  for (const Tokens& sequence : p.suppressed_sequences) {
    if (EndsWith(next, sequence)) {
      return true;
    }
  }
  return Contains(options.banned_tokens, token) || Contains(p.suppressed, token) ||
         (num_generated == 0 && Contains(p.suppressed_at_begin, token)) ||
         (num_generated < p.min_length && Contains(options.end_tokens, token));
}

// Log-probabilities of what may follow `tokens`.
std::vector<float> Distribution(const RawModel& model, const SearchOptions& options,
                                const Tokens& tokens, int num_generated) {
  const search::ProcessorOptions& p = options.processors;
  std::vector<float> values = model(tokens);
  if (!p.renormalize) {
    values = PlainLogSoftmax(values);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const float r = static_cast<float>(p.repetition_penalty);
    if (Contains(tokens, token)) {
      values[i] = values[i] < 0 ? values[i] * r : values[i] / r;
    }
    values[i] = Forbidden(options, tokens, num_generated, token)
                    ? kNever
                    : values[i] / static_cast<float>(p.temperature);
  }
  return p.renormalize ? PlainLogSoftmax(values) : values;
}

double Score(const SearchOptions& options, double sum, size_t length) {
  const double n = static_cast<double>(length);
  switch (options.length_penalty) {
    case LengthPenalty::kPow:
      return sum / std::pow(n, options.alpha);
    case LengthPenalty::kGnmt:
      return sum / std::pow((5 + n) / 6, options.alpha);
    case LengthPenalty::kNone:
      break;
  }
  return sum;
}

struct Pair {
  double rank;
  size_t parent;
  float rank_score;
  int32_t token;
  float log_prob;
};

bool RanksBefore(const Pair& a, const Pair& b) {
  return std::make_tuple(-a.rank, a.parent, -a.rank_score, a.token) <
         std::make_tuple(-b.rank, b.parent, -b.rank_score, b.token);
}

bool ListedBefore(const NaiveHypothesis& a, const NaiveHypothesis& b) {
  return std::make_tuple(-a.score, a.tokens.size(), a.tokens) <
         std::make_tuple(-b.score, b.tokens.size(), b.tokens);
}

}  // namespace

std::vector<float> PlainLogSoftmax(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += std::exp(static_cast<double>(value));
  }
  std::vector<float> result = values;
  for (float& value : result) {
    value = sum > 0 && value > kNever ? std::min(value - static_cast<float>(std::log(sum)), 0.0f)
                                      : kNever;
  }
  return result;
}

NaiveResult NaiveSearch(const RawModel& model, const SearchOptions& options) {
  const size_t beam_size = static_cast<size_t>(options.beam_size);
  NaiveResult result;
  std::vector<NaiveHypothesis> live(1);
  const auto extend = [&](const Pair& pair) {
    NaiveHypothesis child = live[pair.parent];
    child.tokens.push_back(pair.token);
    child.token_log_probs.push_back(pair.log_prob);
    child.sum += pair.log_prob;
    child.score = Score(options, child.sum, child.tokens.size());
    child.ends = Contains(options.end_tokens, pair.token);
    return child;
  };
  for (bool stop = false; !stop && !live.empty();) {
    std::vector<Pair> pairs;
    for (size_t parent = 0; parent < live.size(); ++parent) {
      const std::vector<float> log_probs =
          Distribution(model, options, live[parent].tokens, result.steps);
      for (size_t i = 0; i < log_probs.size(); ++i) {
        if (log_probs[i] > kNever) {
          pairs.push_back({live[parent].sum + log_probs[i], parent, log_probs[i],
                           static_cast<int32_t>(i), log_probs[i]});
        }
      }
    }
    std::sort(pairs.begin(), pairs.end(), RanksBefore);
    std::vector<NaiveHypothesis> next;
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      NaiveHypothesis child = extend(pairs[rank]);
      if (!child.ends && next.size() < beam_size) {
        next.push_back(std::move(child));
      } else if (child.ends && rank < beam_size) {
        result.hypotheses.push_back(std::move(child));
      }
    }
    live = std::move(next);
    const double finished = static_cast<double>(result.hypotheses.size());
    const bool first_ends = !pairs.empty() && Contains(options.end_tokens, pairs[0].token);
    const double wanted = std::max(1.0, std::round(options.beam_size * options.patience));
    stop = ++result.steps == options.max_length ||
           (beam_size == 1 ? finished > 0
                           : (options.stop == StopMode::kFirst && first_ends) ||
                                 (options.stop == StopMode::kCount && finished >= wanted));
  }
  result.dead = live.empty() && result.hypotheses.empty();
  if (result.steps == options.max_length) {
    for (NaiveHypothesis& hypothesis : live) {
      hypothesis.cut = true;
      result.hypotheses.push_back(hypothesis);
    }
  }
  std::sort(result.hypotheses.begin(), result.hypotheses.end(), ListedBefore);
  result.hypotheses.resize(std::min(result.hypotheses.size(), static_cast<size_t>(options.n_best)));
  return result;
}

}  // namespace beamwright::search_testing
