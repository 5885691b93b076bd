#include "tests/engine/search/naive_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "tests/engine/search/naive_rules.h"

namespace beamwright::search_testing {
namespace {

using search::AtLimit;
using search::SearchOptions;
using search::StopMode;

class Search {
 public:
  Search(const RawModel& model, const NaiveRequest& request)
      : model_(model), request_(request), options_(request.options), rules_(model, request) {}

  NaiveResult Run();

 private:
  struct Pair {
    double rank;
    size_t parent;
    float rank_score;
    int32_t token;
    float log_prob;
    int bank;
  };

  void AddScores(const Tokens& before, int32_t token, NaiveHypothesis& hypothesis) const;
  std::vector<Pair> PairsOf(size_t parent, int num_generated) const;
  NaiveHypothesis Extend(const Pair& pair) const;
  bool ReadPrefix();
  void TakeAlternatives();
  // Of the list, or of the only one: -1.
  bool MeetsHeuristic(int list, int size) const;
  void EndAtStops();
  // One step of the rows `members` of live_, who are `size` rows wide.
  void Step(const std::vector<size_t>& members, int size, int group,
            std::vector<NaiveHypothesis>& next, bool& best_ends);
  std::vector<Pair> TakeTurns(std::vector<Pair> sorted) const;

  const RawModel& model_;
  const NaiveRequest& request_;
  const SearchOptions& options_;
  const NaiveRules rules_;
  int generated_ = 0;
  std::vector<NaiveHypothesis> live_;
  NaiveResult result_;
};

void Search::AddScores(const Tokens& before, int32_t token, NaiveHypothesis& hypothesis) const {
  hypothesis.scorer_sums.resize(request_.scorers.size());
  for (size_t i = 0; i < request_.scorers.size(); ++i) {
    const float said = rules_.Said(i, before, token);
    hypothesis.scorer_sums[i] += double{said};
    hypothesis.fused += double{options_.scorers[i].weight} * double{said};
  }
}

std::vector<Search::Pair> Search::PairsOf(size_t parent, int num_generated) const {
  const NaiveHypothesis& row = live_[parent];
  const std::vector<float> log_probs = rules_.Distribution(row.tokens, num_generated);
  const bool forced =
      num_generated == options_.max_length - 1 && options_.at_limit == AtLimit::kForceEnd;
  const double weight = options_.constraints.soft_prefix_weight;
  const bool soft = rules_.FollowsSoftPrefix(row.tokens);
  float best_other = kNever;
  for (size_t i = 0; i < log_probs.size(); ++i) {
    if (!rules_.Ends(static_cast<int32_t>(i))) {
      best_other = std::max(best_other, log_probs[i]);
    }
  }
  std::vector<Pair> pairs;
  for (size_t i = 0; i < log_probs.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const float log_prob = log_probs[i];
    const bool too_soon = options_.end_threshold > 0 && !forced && best_other > kNever &&
                          !(double{log_prob} > options_.end_threshold * double{best_other});
    if (log_prob == kNever || (rules_.Ends(token) ? too_soon : forced)) {
      continue;
    }
    float rank_score = log_prob;
    const Tokens next = With(row.tokens, token);
    if (soft && token == options_.constraints.soft_prefix[static_cast<size_t>(num_generated)]) {
      const float mass = static_cast<float>(weight / (1 - weight));
      rank_score = static_cast<float>(std::log(std::exp(double{log_prob}) + double{mass}));
    }
    rank_score += static_cast<float>(rules_.Earned(next) + rules_.Promise(next));
    float added = 0;
    for (size_t k = 0; k < request_.scorers.size(); ++k) {
      const float share = options_.scorers[k].weight * rules_.Said(k, row.tokens, token);
      added = k == 0 ? share : added + share;
    }
    rank_score += added;
    if (rank_score == kNever) {
      continue;
    }
    const double base = row.sum + row.reward + row.fused + (soft ? std::log1p(-weight) : 0);
    pairs.push_back({base + rank_score, parent, rank_score, token, log_prob, rules_.Bank(next)});
  }
  return pairs;
}

NaiveHypothesis Search::Extend(const Pair& pair) const {
  NaiveHypothesis child = live_[pair.parent];
  const double weight = options_.constraints.soft_prefix_weight;
  if (rules_.FollowsSoftPrefix(child.tokens)) {
    const double p = std::exp(double{pair.log_prob});
    const size_t at = child.tokens.size() - options_.constraints.prefix.size();
    child.reward += options_.constraints.soft_prefix[at] == pair.token
                        ? std::log((1 - weight) * p + weight) - double{pair.log_prob}
                        : std::log1p(-weight);
  }
  AddScores(live_[pair.parent].tokens, pair.token, child);
  child.tokens.push_back(pair.token);
  child.token_log_probs.push_back(pair.log_prob);
  child.sum += pair.log_prob;
  child.reward += rules_.Earned(child.tokens);
  child.ends = rules_.Ends(pair.token);
  child.stops = !child.ends && rules_.Stops(child.tokens);
  child.score = rules_.Score(child);
  return child;
}

// The prefix's own log-probabilities are the model's, whatever the processors say.
bool Search::ReadPrefix() {
  NaiveHypothesis& row = live_.emplace_back();
  for (const int32_t token : options_.constraints.prefix) {
    std::vector<float> values = model_(row.tokens);
    for (const int32_t banned : options_.banned_tokens) {
      values[static_cast<size_t>(banned)] = kNever;
    }
    const float log_prob = PlainLogSoftmax(values)[static_cast<size_t>(token)];
    if (options_.constraints.score_prefix) {
      AddScores(Tokens(row.tokens), token, row);
    }
    row.tokens.push_back(token);
    row.token_log_probs.push_back(log_prob);
    row.sum += options_.constraints.score_prefix ? log_prob : 0;
    row.reward += options_.constraints.score_prefix ? rules_.Earned(row.tokens) : 0;
    ++result_.steps;
    if (log_prob == kNever || row.fused == double{kNever}) {
      return false;
    }
  }
  return true;
}

void Search::TakeAlternatives() {
  std::vector<Pair> pairs = PairsOf(0, 0);
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::make_tuple(-a.rank_score, a.token) < std::make_tuple(-b.rank_score, b.token);
  });
  std::vector<NaiveHypothesis> next;
  int taken = 0;
  for (const Pair& pair : pairs) {
    if (!rules_.Ends(pair.token) && ++taken <= options_.constraints.num_alternatives &&
        double{pair.log_prob} >= std::log(options_.constraints.alternative_min_prob)) {
      next.push_back(Extend(pair));
      next.back().group = static_cast<int>(next.size()) - 1;
    }
  }
  live_ = std::move(next);
}

// Those that complete a stop string have taken their place in the beam, and end.
void Search::EndAtStops() {
  const auto stopped = std::stable_partition(live_.begin(), live_.end(),
                                             [](const NaiveHypothesis& one) { return !one.stops; });
  result_.hypotheses.insert(result_.hypotheses.end(), stopped, live_.end());
  live_.erase(stopped, live_.end());
}

std::vector<Search::Pair> Search::TakeTurns(std::vector<Pair> sorted) const {
  std::map<int, std::vector<Pair>> banks;
  for (const Pair& pair : sorted) {
    banks[-pair.bank].push_back(pair);  // the highest bank first
  }
  std::vector<Pair> result;
  for (size_t turn = 0; result.size() < sorted.size(); ++turn) {
    for (const auto& [bank, pairs] : banks) {
      if (turn < pairs.size()) {
        result.push_back(pairs[turn]);
      }
    }
  }
  return result;
}

void Search::Step(const std::vector<size_t>& members, int size, int group,
                  std::vector<NaiveHypothesis>& next, bool& best_ends) {
  std::vector<Pair> pairs;
  for (const size_t parent : members) {
    for (Pair pair : PairsOf(parent, generated_)) {
      // Rows of earlier groups that chose this token.
      const auto chosen = std::count_if(next.begin(), next.end(), [&](const auto& other) {
        return other.tokens.back() == pair.token;
      });
      if (options_.num_groups > 1) {
        pair.rank -= options_.diversity_penalty * static_cast<double>(chosen);
      }
      pairs.push_back(pair);
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::make_tuple(-a.rank, a.parent, -a.rank_score, a.token) <
           std::make_tuple(-b.rank, b.parent, -b.rank_score, b.token);
  });
  if (!options_.constraints.required.empty()) {
    pairs = TakeTurns(std::move(pairs));
  }
  int lives = 0;
  for (size_t rank = 0; rank < pairs.size() && lives < size; ++rank) {
    if (pairs[rank].rank < pairs[0].rank - options_.beam_threshold) {
      break;
    }
    NaiveHypothesis child = Extend(pairs[rank]);
    child.group = group;
    if (!child.ends) {
      best_ends = best_ends || (child.stops && rank == 0);
      next.push_back(std::move(child));
      ++lives;
    } else if (static_cast<int>(rank) < size) {
      child.cut = generated_ == options_.max_length - 1 && options_.at_limit == AtLimit::kForceEnd;
      result_.hypotheses.push_back(std::move(child));
      best_ends = best_ends || rank == 0;
      if (size == 1) {
        break;  // greedy
      }
    }
  }
}

bool ListedBefore(const NaiveHypothesis& a, const NaiveHypothesis& b) {
  return std::make_tuple(-a.score, a.tokens.size(), a.tokens) <
         std::make_tuple(-b.score, b.tokens.size(), b.tokens);
}

bool Search::MeetsHeuristic(int list, int size) const {
  const auto scores = [list](const std::vector<NaiveHypothesis>& hypotheses) {
    std::vector<double> found;
    for (const NaiveHypothesis& hypothesis : hypotheses) {
      if (list < 0 || hypothesis.group == list) {
        found.push_back(hypothesis.score);
      }
    }
    std::sort(found.rbegin(), found.rend());
    return found;
  };
  const std::vector<double> finished = scores(result_.hypotheses);
  const std::vector<double> live = scores(live_);
  return static_cast<int>(finished.size()) >= size &&
         (live.empty() || finished[static_cast<size_t>(size) - 1] >= live[0]);
}

NaiveResult Search::Run() {
  const int num_alternatives = options_.constraints.num_alternatives;
  const int groups = std::max(options_.num_groups, std::max(1, num_alternatives));
  const int size = options_.beam_size / groups;
  const int lists = std::max(1, num_alternatives);
  const double wanted = std::max(1.0, std::round(options_.beam_size / lists * options_.patience));
  if (!ReadPrefix()) {
    result_.dead = true;
    return result_;
  }
  live_[0].group = -1;
  std::vector<bool> stopped(static_cast<size_t>(lists), false);
  while (generated_ < options_.max_length && !live_.empty()) {
    if (generated_ == 0 && num_alternatives > 0) {
      TakeAlternatives();
      EndAtStops();
      ++generated_;
      ++result_.steps;
      continue;
    }
    std::vector<NaiveHypothesis> next;
    std::vector<bool> best_ends(static_cast<size_t>(groups), false);
    for (int group = 0; group < groups; ++group) {
      std::vector<size_t> members;
      for (size_t row = 0; row < live_.size(); ++row) {
        if (live_[row].group < 0 || live_[row].group == group) {
          members.push_back(row);
        }
      }
      bool ends = false;
      Step(members, size, group, next, ends);
      best_ends[static_cast<size_t>(group)] = ends;
    }
    live_ = std::move(next);
    EndAtStops();
    ++generated_;
    ++result_.steps;
    if (generated_ == options_.max_length) {
      break;
    }
    for (int list = 0; list < lists; ++list) {
      const auto finished =
          std::count_if(result_.hypotheses.begin(), result_.hypotheses.end(),
                        [&](const NaiveHypothesis& h) { return lists == 1 || h.group == list; });
      const bool stops =
          (options_.stop == StopMode::kFirst && best_ends[static_cast<size_t>(list)]) ||
          (options_.stop == StopMode::kCount && static_cast<double>(finished) >= wanted) ||
          (options_.stop == StopMode::kHeuristic &&
           MeetsHeuristic(lists == 1 ? -1 : list, options_.beam_size / lists));
      if (stops) {
        live_.erase(
            std::remove_if(live_.begin(), live_.end(),
                           [&](const NaiveHypothesis& h) { return lists == 1 || h.group == list; }),
            live_.end());
      }
    }
  }
  bool any = !result_.hypotheses.empty();
  for (NaiveHypothesis& hypothesis : live_) {  // only at the maximum length
    if (rules_.IsEntry(hypothesis.tokens) &&
        rules_.IsOfGrammar(hypothesis.tokens, /*whole=*/true) &&
        rules_.Bank(hypothesis.tokens) == rules_.TotalRequired()) {
      hypothesis.cut = any = true;
      result_.hypotheses.push_back(hypothesis);
    }
  }
  result_.dead = !any;
  std::vector<NaiveHypothesis>& all = result_.hypotheses;
  all.erase(
      std::remove_if(all.begin(), all.end(),
                     [&](const NaiveHypothesis& h) { return h.score < options_.score_threshold; }),
      all.end());
  std::sort(all.begin(), all.end(), ListedBefore);
  std::vector<NaiveHypothesis> best;
  for (const NaiveHypothesis& hypothesis : all) {
    const bool seen = std::any_of(best.begin(), best.end(), [&](const NaiveHypothesis& other) {
      return other.tokens == hypothesis.tokens || (lists > 1 && other.group == hypothesis.group);
    });
    if (!seen && static_cast<int>(best.size()) < options_.n_best) {
      best.push_back(hypothesis);
    }
  }
  all = std::move(best);
  return result_;
}

}  // namespace

std::vector<float> PlainLogSoftmax(const std::vector<float>& values) {
  double largest = double{kNever};
  for (const float value : values) {
    largest = std::max(largest, double{value});
  }
  double sum = 0;
  for (const float value : values) {
    sum += value > kNever ? std::exp(double{value} - largest) : 0;
  }
  const auto shift = static_cast<float>(largest + std::log(sum));
  std::vector<float> result = values;
  for (float& value : result) {
    value = value > kNever ? std::min(value - shift, 0.0f) : kNever;
  }
  return result;
}

NaiveResult NaiveSearch(const RawModel& model, const NaiveRequest& request) {
  return Search(model, request).Run();
}

}  // namespace beamwright::search_testing
