#include "tests/engine/search/reference_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace beamwright::search_testing {

using search::LengthPenalty;
using search::SearchOptions;
using search::StopMode;

double ReferenceScore(double sum, int length, const SearchOptions& options) {
  switch (options.length_penalty) {
    case LengthPenalty::kPow:
      return sum / std::pow(length, options.alpha);
    case LengthPenalty::kGnmt:
      return sum / std::pow((5 + static_cast<double>(length)) / 6, options.alpha);
    case LengthPenalty::kNone:
      break;
  }
  return sum;
}

bool ReferencePrecedes(const ReferenceHypothesis& a, const ReferenceHypothesis& b) {
  return std::make_tuple(-a.score, a.tokens.size(), a.tokens) <
         std::make_tuple(-b.score, b.tokens.size(), b.tokens);
}

namespace {

// As generate of transformers decides it: early_stopping false.
bool MeetsHeuristic(std::vector<ReferenceHypothesis> finished,
                    const std::vector<ReferenceHypothesis>& live, size_t beam_size) {
  std::sort(finished.begin(), finished.end(), ReferencePrecedes);
  return finished.size() >= beam_size &&
         std::all_of(live.begin(), live.end(), [&](const ReferenceHypothesis& hypothesis) {
           return hypothesis.score <= finished[beam_size - 1].score;
         });
}

}  // namespace

ReferenceResult ReferenceSearch(const ReferenceModel& model, const SearchOptions& options) {
  struct Pair {
    double sum;
    size_t parent;
    float log_prob;
    int32_t token;
  };
  const auto extend = [&](const ReferenceHypothesis& parent, const Pair& pair, bool ends) {
    ReferenceHypothesis child = parent;
    child.tokens.push_back(pair.token);
    child.token_log_probs.push_back(std::min(pair.log_prob, 0.0f));
    child.sum = pair.sum;
    child.score = ReferenceScore(child.sum, static_cast<int>(child.tokens.size()), options);
    child.ends = ends;
    return child;
  };
  const size_t beam_size = static_cast<size_t>(options.beam_size);
  ReferenceResult result;
  std::vector<ReferenceHypothesis> live(1);
  for (bool stop = false; !stop && !live.empty();) {
    std::vector<Pair> pairs;
    for (size_t parent = 0; parent < live.size(); ++parent) {
      const std::vector<float> log_probs = model(live[parent].tokens);
      for (size_t token = 0; token < log_probs.size(); ++token) {
        if (!std::isinf(log_probs[token])) {
          pairs.push_back({live[parent].sum + std::min(log_probs[token], 0.0f), parent,
                           log_probs[token], static_cast<int32_t>(token)});
        }
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
      return std::make_tuple(-a.sum, a.parent, -a.log_prob, a.token) <
             std::make_tuple(-b.sum, b.parent, -b.log_prob, b.token);
    });
    std::vector<ReferenceHypothesis> next;
    bool first_ends = false;
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      const Pair& pair = pairs[rank];
      const bool ends =
          std::count(options.end_tokens.begin(), options.end_tokens.end(), pair.token) > 0;
      first_ends |= ends && rank == 0;
      if (ends && rank < beam_size) {
        result.hypotheses.push_back(extend(live[pair.parent], pair, true));
      } else if (!ends && next.size() < beam_size) {
        next.push_back(extend(live[pair.parent], pair, false));
      }
    }
    live = std::move(next);
    result.num_finished = static_cast<int>(result.hypotheses.size());
    const double wanted = std::max(1.0, std::round(options.beam_size * options.patience));
    stop = ++result.steps == options.max_length || (beam_size == 1 && result.num_finished > 0) ||
           (beam_size > 1 && options.stop == StopMode::kFirst && first_ends) ||
           (beam_size > 1 && options.stop == StopMode::kCount && result.num_finished >= wanted) ||
           (beam_size > 1 && options.stop == StopMode::kHeuristic &&
            MeetsHeuristic(result.hypotheses, live, beam_size));
  }
  const bool greedy_ended = beam_size == 1 && result.num_finished > 0;
  if (result.steps == options.max_length && !greedy_ended) {
    result.hypotheses.insert(result.hypotheses.end(), live.begin(), live.end());
  }
  std::sort(result.hypotheses.begin(), result.hypotheses.end(), ReferencePrecedes);
  result.hypotheses.resize(std::min(result.hypotheses.size(), static_cast<size_t>(options.n_best)));
  return result;
}

}  // namespace beamwright::search_testing
