#include "tests/server/search/naive_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace beamwright::search_testing {
namespace {

using search::AtLimit;
using search::LengthPenalty;
using search::SearchOptions;
using search::StopMode;
using Tokens = std::vector<int32_t>;

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool Contains(const Tokens& tokens, int32_t token) {
  return std::count(tokens.begin(), tokens.end(), token) > 0;
}

bool StartsWith(const Tokens& tokens, const Tokens& beginning) {
  return tokens.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

bool EndsWith(const Tokens& tokens, const Tokens& ending) {
  return tokens.size() >= ending.size() &&
         std::equal(ending.rbegin(), ending.rend(), tokens.rbegin());
}

Tokens With(Tokens tokens, int32_t token) {
  tokens.push_back(token);
  return tokens;
}

// Of the required sequences: how many tokens are met.
int Bank(const SearchOptions& options, const Tokens& tokens) {
  const std::vector<Tokens>& required = options.constraints.required;
  std::vector<bool> done(required.size(), false);
  Tokens partial;
  int bank = 0;
  const auto advance = [&](const Tokens& wanted) {
    bool longer = false;
    for (size_t i = 0; i < required.size(); ++i) {
      if (!done[i] && required[i] == wanted) {
        done[i] = true;
        bank += static_cast<int>(wanted.size());
        partial.clear();
        return true;
      }
      longer = longer || (!done[i] && StartsWith(required[i], wanted));
      if (!done[i] && options.constraints.required_in_order) {
        break;  // the next one must wait for this one
      }
    }
    if (longer) {
      partial = wanted;
    }
    return longer;
  };
  for (const int32_t token : tokens) {
    if (!advance(With(partial, token))) {
      partial.clear();
      advance({token});
    }
  }
  return bank + static_cast<int>(partial.size());
}

int TotalRequired(const SearchOptions& options) {
  size_t total = 0;
  for (const Tokens& sequence : options.constraints.required) {
    total += sequence.size();
  }
  return static_cast<int>(total);
}

class Search {
 public:
  Search(const RawModel& model, const NaiveRequest& request)
      : model_(model), request_(request), options_(request.options) {}

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

  bool Ends(int32_t token) const { return Contains(options_.end_tokens, token); }
  bool EntryMayGoOn(const Tokens& tokens, int32_t token) const;
  bool IsEntry(const Tokens& tokens) const;
  bool Forbidden(const Tokens& tokens, int num_generated, int32_t token) const;
  std::vector<float> Distribution(const Tokens& tokens, int num_generated) const;
  double Earned(const Tokens& tokens) const;
  double Promise(const Tokens& tokens) const;
  bool FollowsSoftPrefix(const Tokens& tokens) const;
  double Score(const NaiveHypothesis& hypothesis) const;
  // What scorer `index` says of a token, as it counts.
  float Said(size_t index, const Tokens& tokens, int32_t token) const;
  void AddScores(const Tokens& before, int32_t token, NaiveHypothesis& hypothesis) const;
  std::vector<Pair> PairsOf(size_t parent, int num_generated) const;
  NaiveHypothesis Extend(const Pair& pair) const;
  bool ReadPrefix();
  void TakeAlternatives();
  // One step of the rows `members` of live_, who are `size` rows wide.
  void Step(const std::vector<size_t>& members, int size, int group,
            std::vector<NaiveHypothesis>& next, bool& best_ends);
  std::vector<Pair> TakeTurns(std::vector<Pair> sorted) const;

  const RawModel& model_;
  const NaiveRequest& request_;
  const SearchOptions& options_;
  int generated_ = 0;
  std::vector<NaiveHypothesis> live_;
  NaiveResult result_;
};

bool Search::EntryMayGoOn(const Tokens& tokens, int32_t token) const {
  if (request_.entries.empty()) {
    return true;
  }
  const Tokens next = With(tokens, token);
  return std::any_of(request_.entries.begin(), request_.entries.end(), [&](const Tokens& entry) {
    return StartsWith(entry, next) || (entry == tokens && Ends(token));
  });
}

bool Search::IsEntry(const Tokens& tokens) const {
  const auto& entries = request_.entries;
  return entries.empty() || std::count(entries.begin(), entries.end(), tokens) > 0;
}

// Whether `token` must not follow `tokens`. An n-gram that a prefix repeats by itself is not the
// search's doing: only the new one counts.
bool Search::Forbidden(const Tokens& tokens, int num_generated, int32_t token) const {
  const search::ProcessorOptions& p = options_.processors;
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
  const Tokens& shortlist = options_.constraints.shortlist;
  return Contains(options_.banned_tokens, token) || Contains(p.suppressed, token) ||
         (num_generated == 0 && Contains(p.suppressed_at_begin, token)) ||
         (num_generated < p.min_length && Ends(token)) || !EntryMayGoOn(tokens, token) ||
         (!shortlist.empty() && !Contains(shortlist, token) && !Ends(token)) ||
         (Ends(token) && Bank(options_, tokens) < TotalRequired(options_));
}

// Log-probabilities of what may follow `tokens`.
std::vector<float> Search::Distribution(const Tokens& tokens, int num_generated) const {
  const search::ProcessorOptions& p = options_.processors;
  std::vector<float> values = model_(tokens);
  if (!p.renormalize) {
    values = PlainLogSoftmax(values);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const float r = static_cast<float>(p.repetition_penalty);
    if (Contains(tokens, token)) {
      values[i] = values[i] < 0 ? values[i] * r : values[i] / r;
    }
    values[i] = Forbidden(tokens, num_generated, token)
                    ? kNever
                    : values[i] / static_cast<float>(p.temperature);
  }
  return p.renormalize ? PlainLogSoftmax(values) : values;
}

// Bonuses of the hotwords that end where the tokens end.
double Search::Earned(const Tokens& tokens) const {
  double earned = 0;
  for (const search::Hotword& hotword : options_.constraints.hotwords) {
    earned += EndsWith(tokens, hotword.tokens) ? hotword.bonus : 0;
  }
  return earned;
}

// The most that an unfinished hotword holds out.
double Search::Promise(const Tokens& tokens) const {
  double promise = 0;
  for (const search::Hotword& hotword : options_.constraints.hotwords) {
    const size_t length = hotword.tokens.size();
    for (size_t d = 1; d < length; ++d) {
      const Tokens part(hotword.tokens.begin(), hotword.tokens.begin() + static_cast<int64_t>(d));
      if (EndsWith(tokens, part)) {
        promise =
            std::max(promise, hotword.bonus * static_cast<double>(d) / static_cast<double>(length));
      }
    }
  }
  return promise;
}

bool Search::FollowsSoftPrefix(const Tokens& tokens) const {
  const Tokens& prefix = options_.constraints.prefix;
  const Tokens& soft = options_.constraints.soft_prefix;
  const Tokens own(tokens.begin() + static_cast<int64_t>(prefix.size()), tokens.end());
  return own.size() < soft.size() && StartsWith(soft, own);
}

double Search::Score(const NaiveHypothesis& hypothesis) const {
  const search::ConstraintOptions& c = options_.constraints;
  const double n =
      static_cast<double>(hypothesis.tokens.size() - (c.score_prefix ? 0 : c.prefix.size()));
  const double total =
      hypothesis.sum + hypothesis.reward + hypothesis.fused + options_.word_reward * n;
  switch (options_.length_penalty) {
    case LengthPenalty::kPow:
      return total / std::pow(n, options_.alpha);
    case LengthPenalty::kGnmt:
      return total / std::pow((5 + n) / 6, options_.alpha);
    case LengthPenalty::kNone:
      break;
  }
  return total;
}

float Search::Said(size_t index, const Tokens& tokens, int32_t token) const {
  float score = request_.scorers[index](tokens)[static_cast<size_t>(token)];
  score = std::min(score, 0.0f);
  return options_.scorers[index].weight < 0 ? std::max(score, -20.0f) : score;
}

void Search::AddScores(const Tokens& before, int32_t token, NaiveHypothesis& hypothesis) const {
  hypothesis.scorer_sums.resize(request_.scorers.size());
  for (size_t i = 0; i < request_.scorers.size(); ++i) {
    const float said = Said(i, before, token);
    hypothesis.scorer_sums[i] += double{said};
    hypothesis.fused += double{options_.scorers[i].weight} * double{said};
  }
}

std::vector<Search::Pair> Search::PairsOf(size_t parent, int num_generated) const {
  const NaiveHypothesis& row = live_[parent];
  const std::vector<float> log_probs = Distribution(row.tokens, num_generated);
  const bool spreads = num_generated == 0 && options_.constraints.num_alternatives > 0;
  const bool forced = !spreads && num_generated == options_.max_length - 1 &&
                      options_.at_limit == AtLimit::kForceEnd;
  const double weight = options_.constraints.soft_prefix_weight;
  const bool soft = FollowsSoftPrefix(row.tokens);
  float best_other = kNever;
  for (size_t i = 0; i < log_probs.size(); ++i) {
    if (!Ends(static_cast<int32_t>(i))) {
      best_other = std::max(best_other, log_probs[i]);
    }
  }
  std::vector<Pair> pairs;
  for (size_t i = 0; i < log_probs.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const float log_prob = log_probs[i];
    const bool too_soon = options_.end_threshold > 0 && !forced && best_other > kNever &&
                          !(double{log_prob} > options_.end_threshold * double{best_other});
    if (log_prob == kNever || (Ends(token) ? too_soon : forced)) {
      continue;
    }
    float rank_score = log_prob;
    const Tokens next = With(row.tokens, token);
    if (soft && token == options_.constraints.soft_prefix[static_cast<size_t>(num_generated)]) {
      const float mass = static_cast<float>(weight / (1 - weight));
      rank_score = static_cast<float>(std::log(std::exp(double{log_prob}) + double{mass}));
    }
    rank_score += static_cast<float>(Earned(next) + Promise(next));
    float added = 0;
    for (size_t k = 0; k < request_.scorers.size(); ++k) {
      const float share = options_.scorers[k].weight * Said(k, row.tokens, token);
      added = k == 0 ? share : added + share;
    }
    rank_score += added;
    if (rank_score == kNever) {
      continue;
    }
    const double base = row.sum + row.reward + row.fused + (soft ? std::log1p(-weight) : 0);
    pairs.push_back({base + rank_score, parent, rank_score, token, log_prob, Bank(options_, next)});
  }
  return pairs;
}

NaiveHypothesis Search::Extend(const Pair& pair) const {
  NaiveHypothesis child = live_[pair.parent];
  const double weight = options_.constraints.soft_prefix_weight;
  if (FollowsSoftPrefix(child.tokens)) {
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
  child.reward += Earned(child.tokens);
  child.ends = Ends(pair.token);
  child.score = Score(child);
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
    row.reward += Earned(row.tokens);
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
    if (!Ends(pair.token) && ++taken <= options_.constraints.num_alternatives &&
        double{pair.log_prob} >= std::log(options_.constraints.alternative_min_prob)) {
      next.push_back(Extend(pair));
      next.back().group = static_cast<int>(next.size()) - 1;
    }
  }
  live_ = std::move(next);
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
          (options_.stop == StopMode::kCount && static_cast<double>(finished) >= wanted);
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
    if (IsEntry(hypothesis.tokens) &&
        Bank(options_, hypothesis.tokens) == TotalRequired(options_)) {
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

NaiveResult NaiveSearch(const RawModel& model, const NaiveRequest& request) {
  return Search(model, request).Run();
}

}  // namespace beamwright::search_testing
