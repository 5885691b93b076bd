// Strategies choose, at each step of a search, which pairs of a row and its next token live on. A
// strategy has three parts: candidates_per_row says how many of each row's best tokens the scan
// must find, Prepare adds rules for the scan (tokens to watch, draws), Choose takes the pairs from
// the candidates. All work on `Step` (step.h), which knows the rules and ranks, and fill a
// `Choice`: pairs that live, pairs that finish.
//
//   BeamStrategy            the best beam_size pairs of all rows; greedy search with one row
//   GroupStrategy           diverse groups and alternatives: each group of rows ranks for itself
//   BankStrategy            required sequences: the beam is dealt out by how much is met
//   RandomStrategy          sampling: each row takes the token that the scan drew
//   StochasticBeamStrategy  sampling without replacement
//   PrefixStrategy          reads the target prefix, token by token
//   AlternativesStrategy    the first token of each alternative
//   ForcedEndStrategy       the last step, if hypotheses must close: only end tokens
//
// Strategies::At says which one chooses: the prefix first, then perhaps the alternatives' first
// tokens, then the free strategy (MakeFree), perhaps a forced end at last.
//
// A beam needs beam_size candidates per row, as all may come from one row, and as many more as
// there are end tokens, since pairs that finish leave the beam.
#include "engine/search/strategies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/search/step.h"
#include "engine/search/timestamps.h"

namespace beamwright::search {
namespace {

// Plain beam search, and greedy search: the best pairs of all rows.
class BeamStrategy final : public Strategy {
 public:
  explicit BeamStrategy(int beam_size) { cursors_.reserve(static_cast<size_t>(beam_size)); }

  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  // The best candidate of a row that has not been ranked yet.
  struct Cursor {
    double rank;
    int32_t row;
    int32_t candidate;
  };

  // A functor, so that the heap's functions inline it.
  struct IsWorse {
    bool operator()(const Cursor& a, const Cursor& b) const {
      return a.rank != b.rank ? a.rank < b.rank : a.row > b.row;
    }
  };
  // Puts a cursor on the row's first open candidate from `candidate` on into the heap.
  void Push(const Step& step, int32_t row, size_t candidate);
  // Takes the best pair of all rows. False if no pair is left.
  bool Pop(const Step& step, Pair& pair);

  std::vector<Cursor> cursors_;  // a heap, best first
};

void BeamStrategy::Push(const Step& step, int32_t row, size_t candidate) {
  const auto r = static_cast<size_t>(row);
  const size_t size = step.candidates()[r].tokens.size();
  while (candidate < size && !step.IsOpen(r, candidate)) {
    ++candidate;
  }
  if (candidate < size) {
    cursors_.push_back({step.Rank(r, candidate), row, static_cast<int32_t>(candidate)});
    std::push_heap(cursors_.begin(), cursors_.end(), IsWorse());
  }
}

bool BeamStrategy::Pop(const Step& step, Pair& pair) {
  if (cursors_.empty()) {
    return false;
  }
  std::pop_heap(cursors_.begin(), cursors_.end(), IsWorse());
  const Cursor top = cursors_.back();
  cursors_.pop_back();
  const auto candidate = static_cast<size_t>(top.candidate);
  pair = step.MakePair(static_cast<size_t>(top.row), candidate);
  Push(step, top.row, candidate + 1);
  return true;
}

// Each row's list is in order already, so a heap of one cursor per row ranks the pairs of all.
absl::Status BeamStrategy::Choose(Step& step, Choice& choice) {
  cursors_.clear();
  for (size_t r = 0; r < step.rows().size(); ++r) {
    Push(step, static_cast<int32_t>(r), 0);
  }
  TakeBest(
      step, step.options().beam_size, 0, [&](Pair& pair) { return Pop(step, pair); }, choice);
  return absl::OkStatus();
}

// Groups of rows that are ranked apart: of diverse beam search (Vijayakumar et al. 2016), where a
// group pays for tokens that earlier ones chose, and those of alternatives.
class GroupStrategy final : public Strategy {
 public:
  // num_groups divides the beam size.
  explicit GroupStrategy(int num_groups) : num_groups_(num_groups) {}

  // The default is enough: penalties concern at most beam_size tokens besides a group's own.
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  int num_groups_;
  std::vector<Pair> pairs_;
};

// Lowers each pair's rank by the penalty for each pair chosen so far that has its token.
void Penalise(const std::vector<Pair>& chosen, double penalty, std::vector<Pair>& pairs) {
  for (Pair& pair : pairs) {
    const auto count = std::count_if(chosen.begin(), chosen.end(),
                                     [&](const Pair& other) { return other.token == pair.token; });
    pair.rank -= penalty * static_cast<double>(count);
  }
}

absl::Status GroupStrategy::Choose(Step& step, Choice& choice) {
  const SearchOptions& options = step.options();
  for (int group = 0; group < num_groups_; ++group) {
    step.CollectPairs(group, pairs_);
    if (options.num_groups > 1) {
      Penalise(choice.living, options.diversity_penalty, pairs_);
    }
    std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
    TakeSorted(step, options.beam_size / num_groups_, group, pairs_, choice);
  }
  return absl::OkStatus();
}

// Required sequences: rows that have met more of their tokens are ranked apart from rows that have
// met fewer, each number a bank, and the beam is dealt out to the banks in turn (docs/decoding.md,
// 'Required sequences').
class BankStrategy final : public Strategy {
 public:
  // More than the default: watched tokens may be among the best of a row without belonging to its
  // other ones.
  int candidates_per_row(const SearchOptions& options) const override;
  // Watched: the tokens that lead to another bank.
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  // Puts the pairs in the order in which they are taken: the best of the highest bank, the best of
  // the next one, and so on to the lowest; then the second of each.
  void DealOut();

  WatchedCandidates watched_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<int, int>> bank_turns_;   // bank, pairs of it so far
  std::vector<std::array<int, 3>> turn_of_pair_;  // turn, -bank, index into pairs_
};

int BankStrategy::candidates_per_row(const SearchOptions& options) const {
  return options.beam_size + static_cast<int>(options.end_tokens.size()) +
         2 * static_cast<int>(options.constraints.required.size());
}

void BankStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  for (size_t r = 0; r < step.rows().size(); ++r) {
    step.pipeline().AddBankTokens(static_cast<int>(r), step.rows()[r].watched);
  }
}

void BankStrategy::DealOut() {
  // A pair's turn is its place among those of the same bank; few banks are there at a time.
  bank_turns_.clear();
  turn_of_pair_.clear();
  for (const Pair& pair : pairs_) {
    auto it = std::find_if(bank_turns_.begin(), bank_turns_.end(),
                           [&](const auto& turn) { return turn.first == pair.bank; });
    if (it == bank_turns_.end()) {
      bank_turns_.push_back({pair.bank, 0});
      it = bank_turns_.end() - 1;
    }
    turn_of_pair_.push_back({it->second++, -pair.bank, static_cast<int>(turn_of_pair_.size())});
  }
  std::sort(turn_of_pair_.begin(), turn_of_pair_.end());
}

absl::Status BankStrategy::Choose(Step& step, Choice& choice) {
  if (!step.forced_end()) {  // else what was watched are the candidates already
    step.SetCandidates(watched_.Joined(step));
  }
  step.CollectPairs(-1, pairs_);
  for (Pair& pair : pairs_) {
    pair.bank = step.pipeline().BankAfter(pair.parent, pair.token);
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  DealOut();
  size_t next = 0;
  TakeBest(
      step, step.options().beam_size, 0,
      [&](Pair& pair) {
        if (next == turn_of_pair_.size()) {
          return false;
        }
        pair = pairs_[static_cast<size_t>(turn_of_pair_[next++][2])];
        return true;
      },
      choice);
  return absl::OkStatus();
}

// Random sampling: each row is a sample and takes the token that the scan drew for it; the first
// row draws the first tokens of all samples.
class RandomStrategy final : public Strategy {
 public:
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;
};

void RandomStrategy::Prepare(const Step& step, absl::Span<RowRules> rules) const {
  const SamplingOptions& sampling = step.options().sampling;
  for (size_t r = 0; r < rules.size(); ++r) {
    RowDraw& draw = rules[r].draw;
    draw.kind = DrawKind::kSample;
    draw.seed = sampling.seed;
    draw.position = static_cast<uint32_t>(step.num_generated());
    draw.stream = static_cast<uint32_t>(step.rows()[r].sample);
    draw.count = step.num_generated() == 0 ? step.options().beam_size : 1;
    draw.top_k = sampling.top_k;
    draw.top_p = static_cast<float>(sampling.top_p);
    draw.min_p = static_cast<float>(sampling.min_p);
  }
}

absl::Status RandomStrategy::Choose(Step& step, Choice& choice) {
  for (size_t r = 0; r < step.rows().size(); ++r) {
    for (size_t i = 0; i < step.candidates()[r].tokens.size(); ++i) {
      Pair pair = step.MakePair(r, i);
      pair.group = step.rows()[r].sample + static_cast<int32_t>(i);
      step.Note(pair, 0, step.IsEnd(pair.token) ? Fate::kAnswer : Fate::kKept);
      (step.IsEnd(pair.token) ? choice.finishing : choice.living).push_back(pair);
    }
  }
  return absl::OkStatus();
}

// Sampling without replacement: stochastic beam search (Kool, van Hoof, Welling 2019). Pairs are
// ranked by noisy log-probabilities, of which the scan drew each row's best.
class StochasticBeamStrategy final : public Strategy {
 public:
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  std::vector<Pair> pairs_;
};

// Kool et al. 2019, appendix B.3: noise of a child, given that the largest of all children's is
// `largest`, moved so that the largest becomes the parent's.
double ConditionedNoise(double parent, double largest, double own) {
  const double difference = own - largest;
  if (difference == 0) {
    return parent;
  }
  const double v = parent - own + std::log1p(-std::exp(difference));
  return parent - std::max(0.0, v) - std::log1p(std::exp(-std::abs(v)));
}

void StochasticBeamStrategy::Prepare(const Step& step, absl::Span<RowRules> rules) const {
  for (size_t r = 0; r < rules.size(); ++r) {
    RowDraw& draw = rules[r].draw;
    draw.kind = DrawKind::kGumbel;
    draw.seed = step.options().sampling.seed;
    draw.position = static_cast<uint32_t>(step.num_generated());
    draw.stream = static_cast<uint32_t>(r);
  }
}

absl::Status StochasticBeamStrategy::Choose(Step& step, Choice& choice) {
  step.CollectPairs(-1, pairs_);
  for (Pair& pair : pairs_) {
    // A row's first candidate has the largest noisy log-probability of all its tokens.
    const auto parent = static_cast<size_t>(pair.parent);
    const LiveRow& row = step.rows()[parent];
    const float largest = step.candidates()[parent].rank_scores[0];
    pair.rank = ConditionedNoise(row.rank, row.sum + static_cast<double>(largest),
                                 row.sum + static_cast<double>(pair.rank_score));
  }
  std::sort(pairs_.begin(), pairs_.end(), RanksBefore);
  TakeSorted(step, step.options().beam_size, 0, pairs_, choice);
  return absl::OkStatus();
}

// Reads the target prefix: the search has one row, which takes the prefix's next token.
class PrefixStrategy final : public Strategy {
 public:
  // The token is watched.
  int candidates_per_row(const SearchOptions& /*options*/) const override { return 0; }
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  // FailedPrecondition, naming the token, if it has probability 0.
  absl::Status Choose(Step& step, Choice& choice) override;
};

int32_t TokenOf(const Step& step) {
  return step.options().constraints.prefix[static_cast<size_t>(step.number())];
}

absl::Status Barred(absl::string_view who, const Step& step) {
  return absl::FailedPreconditionError(absl::StrCat("target_prefix: ", who, " gives token ",
                                                    TokenOf(step), ", number ", step.number(),
                                                    " of the prefix, probability 0"));
}

void PrefixStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  step.rows()[0].watched.push_back(TokenOf(step));
}

absl::Status PrefixStrategy::Choose(Step& step, Choice& choice) {
  const RowCandidates& candidates = step.candidates()[0];
  const LiveRow& row = step.rows()[0];
  const bool is_scored = step.options().constraints.score_prefix;
  Pair pair;
  pair.token = TokenOf(step);
  pair.log_prob = std::min(candidates.watched[0], 0.0f);
  if (pair.log_prob == kImpossible) {
    return Barred("the model", step);
  }
  pair.sum = is_scored ? row.sum + static_cast<double>(pair.log_prob) : 0;
  pair.reward = is_scored ? row.reward + step.pipeline().Reward(0, pair.token, pair.log_prob) : 0;
  pair.fused = row.fused;
  step.AddParts(candidates, pair);
  if (!is_scored) {
    pair.fused = 0;
  } else if (pair.fused == -std::numeric_limits<double>::infinity()) {
    return Barred("fusion", step);
  }
  pair.group = -1;
  if (step.trace() != nullptr) {
    Pair noted = pair;  // nothing ranks it
    noted.rank_score = pair.log_prob;
    noted.rank = row.base + static_cast<double>(pair.log_prob);
    step.Note(noted, 0, Fate::kKept);
  }
  choice.living.push_back(pair);
  return absl::OkStatus();
}

// Takes the most probable first tokens of a hypothesis, one alternative each, which are groups
// from then on (docs/decoding.md, 'Alternatives').
class AlternativesStrategy final : public Strategy {
 public:
  int candidates_per_row(const SearchOptions& options) const override;
  absl::Status Choose(Step& step, Choice& choice) override;
};

int AlternativesStrategy::candidates_per_row(const SearchOptions& options) const {
  return options.constraints.num_alternatives + static_cast<int>(options.end_tokens.size());
}

absl::Status AlternativesStrategy::Choose(Step& step, Choice& choice) {
  const ConstraintOptions& constraints = step.options().constraints;
  const RowCandidates& row = step.candidates()[0];
  const double least = std::log(constraints.alternative_min_prob);
  int left = constraints.num_alternatives;
  size_t i = 0;
  for (; i < row.tokens.size() && left > 0; ++i) {
    if (!step.IsOpen(0, i)) {
      continue;
    }
    Pair pair = step.MakePair(0, i);
    if (step.IsEnd(row.tokens[i])) {
      step.Note(pair, 0, Fate::kEndOfAlternative);
      continue;
    }
    --left;
    if (static_cast<double>(LogProb(row, i)) < least) {
      step.Note(pair, 0, Fate::kAlternativeMinProb);
    } else {
      pair.group = static_cast<int32_t>(choice.living.size());
      step.Note(pair, 0, Fate::kKept);
      pair.reward += step.pipeline().Reward(0, pair.token, pair.log_prob);
      choice.living.push_back(pair);
    }
  }
  for (; step.trace() != nullptr && i < row.tokens.size(); ++i) {
    if (step.IsOpen(0, i)) {
      step.Note(step.MakePair(0, i), 0,
                step.IsEnd(row.tokens[i]) ? Fate::kEndOfAlternative : Fate::kBeam);
    }
  }
  return absl::OkStatus();
}

// The last step of a search whose hypotheses must close: only end tokens are left, among which
// another strategy chooses.
class ForcedEndStrategy final : public Strategy {
 public:
  // `chooser` must live as long.
  explicit ForcedEndStrategy(Strategy& chooser) : chooser_(chooser) {}

  // End tokens are watched.
  int candidates_per_row(const SearchOptions& /*options*/) const override { return 0; }
  void Prepare(const Step& step, absl::Span<RowRules> rules) const override;
  absl::Status Choose(Step& step, Choice& choice) override;

 private:
  Strategy& chooser_;
  WatchedCandidates watched_;
};

void ForcedEndStrategy::Prepare(const Step& step, absl::Span<RowRules> /*rules*/) const {
  for (LiveRow& row : step.rows()) {
    row.watched = step.options().end_tokens;
  }
}

absl::Status ForcedEndStrategy::Choose(Step& step, Choice& choice) {
  step.ForceEnd();
  step.SetCandidates(watched_.Only(step));
  return chooser_.Choose(step, choice);
}

// How many groups share the rows; the options exclude that both are above 1.
int NumGroups(const SearchOptions& options) {
  return std::max(options.num_groups, options.constraints.num_alternatives);
}

std::unique_ptr<Strategy> MakeBeam(const SearchOptions& options) {
  auto beam = std::make_unique<BeamStrategy>(options.beam_size);
  if (options.processors.first_timestamp < 0) {
    return beam;
  }
  return std::make_unique<TimestampStrategy>(std::move(beam));
}

std::unique_ptr<Strategy> MakeFree(const SearchOptions& options) {
  switch (options.sampling.kind) {
    case Sampling::kRandom:
      return std::make_unique<RandomStrategy>();
    case Sampling::kWithoutReplacement:
      return std::make_unique<StochasticBeamStrategy>();
    case Sampling::kNone:
      break;
  }
  if (!options.constraints.required.empty()) {
    return std::make_unique<BankStrategy>();
  }
  if (NumGroups(options) > 1) {
    return std::make_unique<GroupStrategy>(NumGroups(options));
  }
  return MakeBeam(options);
}

}  // namespace

int Strategy::candidates_per_row(const SearchOptions& options) const {
  const int ends = static_cast<int>(options.end_tokens.size());
  if (options.beam_size == 1) {
    return options.end_threshold == 0 ? 1 : 1 + ends;
  }
  return options.beam_size + ends;
}

Strategies::Strategies(const SearchOptions& options)
    : last_(options.max_length - 1), free_(MakeFree(options)) {
  if (!options.constraints.prefix.empty()) {
    prefix_ = std::make_unique<PrefixStrategy>();
  }
  if (options.constraints.num_alternatives > 0) {
    alternatives_ = std::make_unique<AlternativesStrategy>();
  }
  if (options.at_limit == AtLimit::kForceEnd) {
    forced_end_ = std::make_unique<ForcedEndStrategy>(*free_);
  }
}

Strategy& Strategies::At(int num_generated) const {
  if (num_generated < 0) {
    return *prefix_;
  }
  if (num_generated == 0 && alternatives_ != nullptr) {
    return *alternatives_;
  }
  return num_generated == last_ && forced_end_ != nullptr ? *forced_end_ : *free_;
}

}  // namespace beamwright::search
