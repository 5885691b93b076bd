// One step of a beam search while it is made: the live rows, the candidates of each, and the pairs
// (row, token) made of them. A strategy (strategies.h) reads a Step and fills a Choice.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STEP_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STEP_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/n_best_list.h"
#include "engine/search/options.h"
#include "engine/search/processor.h"
#include "engine/search/row_search.h"
#include "engine/search/search_trace.h"

namespace beamwright::search {

// InvalidArgument: what scorers or an ensemble's decoders say is not there, or not of the whole
// vocabulary.
absl::Status CheckParts(const RowCandidates& row, const SearchOptions& options);

// RowPipeline: the processors of one request at work. It keeps the history and the processors'
// states of each live row and makes the rules of the next step.

// Movable, not copyable. One thread at a time. Steps allocate only while histories grow.
class RowPipeline {
 public:
  // Starts with one row without tokens. The options must be valid.
  explicit RowPipeline(const SearchOptions& options);

  RowPipeline(RowPipeline&&) = default;
  RowPipeline& operator=(RowPipeline&&) = default;

  // Row i now continues row parents[i] of before with tokens[i].
  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens);

  // Makes the next step's rules, one per row: those of the processors, or (plain) none but the bans
  // that hold always. num_generated: tokens of each row behind the target prefix. The caller may
  // add what it watches and draws. Views until the next call of a member that is not const.
  absl::Span<RowRules> MakeRules(int num_generated, bool plain);

  // Of the live rows, as the processors define them, summed over all processors.
  double RankOffset(int row) const;
  double Reward(int row, int32_t token, float log_prob) const;
  int BankAfter(int row, int32_t token) const;
  void AddBankTokens(int row, std::vector<int32_t>& tokens) const;
  bool MayBeCut(int row) const;
  // Whether the row ends with this token, though it is no end token.
  bool Stops(int row, int32_t token) const;
  // True if any processor gives rewards; then max_gain bounds log_prob + Reward of every token.
  bool gives_rewards() const { return gives_rewards_; }
  double max_gain() const { return max_gain_; }
  // The options that keep cut hypotheses out of the answer, for a message.
  std::string CuttingOptions(int row) const;

  // The options that mask tokens in this step, for a message: "min_length, suppress_tokens".
  // Empty: none.
  std::string MaskingOptions() const;

 private:
  struct Row {
    std::vector<int32_t> tokens;
    std::vector<int64_t> states;  // one per processor
  };

  int64_t StateOf(int row, size_t processor) const;
  void Fill(const Row& row, int num_generated, bool plain, RuleBuffer& buffer);

  std::vector<int32_t> bans_;  // hold always
  bool renormalize_;
  std::vector<std::unique_ptr<const Processor>> processors_;
  bool gives_rewards_ = false;
  bool may_stop_ = false;
  double max_gain_ = 0;
  bool depends_on_row_ = false;  // else one buffer serves all rows, and no histories are kept
  std::vector<bool> masks_;      // one per processor: it masks a token in this step

  size_t num_rows_ = 1;
  std::vector<Row> rows_;  // the first num_rows_ are live; the others keep their memory
  std::vector<Row> next_rows_;
  std::vector<RuleBuffer> buffers_;
  std::vector<RowRules> rules_;
};

// A hypothesis that the search may continue.
struct LiveRow {
  double sum = 0;
  double reward = 0;
  double fused = 0;
  double rank = 0;  // of the pair that made it
  double base = 0;  // what its pairs' ranks start from, in the step under way
  int group = -1;   // -1: all groups
  int sample = 0;
  bool done = false;     // its alternative's n-best list is complete: nothing continues it
  float best_other = 0;  // log-probability of its best token that is not an end token
  std::vector<int32_t> watched;
};

// What a strategy chose. The vectors keep their memory from step to step.
struct Choice {
  std::vector<Pair> living;     // the next step's rows, in their order
  std::vector<Pair> finishing;  // closed by an end token
  std::vector<Pair> stopping;   // of `living` before: ended by a stop string
  std::vector<bool> best_ends;  // for each n-best list: the best of its pairs finishes

  void Clear() {
    living.clear();
    finishing.clear();
    stopping.clear();
    best_ends.assign(best_ends.size(), false);
  }
};

// By rank, then row, then the token's share in the rank, then token (docs/decoding.md, 'Order').
bool RanksBefore(const Pair& a, const Pair& b);

inline float LogProb(const RowCandidates& row, size_t candidate) {
  return std::min(row.log_probs[candidate], 0.0f);
}
inline float RankScore(const RowCandidates& row, size_t candidate) {
  return row.rank_scores.empty() ? LogProb(row, candidate) : row.rank_scores[candidate];
}

// Views of what the search holds; made anew for each step.
class Step {
 public:
  // number: steps made before this one. The options' end tokens are ascending and distinct. trace:
  // null, or the record of pairs.
  Step(const SearchOptions& options, const RowPipeline& pipeline, absl::Span<LiveRow> rows,
       int number, SearchTrace* trace = nullptr)
      : options_(options), pipeline_(pipeline), rows_(rows), number_(number), trace_(trace) {}

  const SearchOptions& options() const { return options_; }
  const RowPipeline& pipeline() const { return pipeline_; }
  absl::Span<LiveRow> rows() const { return rows_; }
  int number() const { return number_; }
  SearchTrace* trace() const { return trace_; }
  // SearchTrace::Note, if there is one.
  void Note(const Pair& pair, int order, Fate fate, absl::Span<const Pair> living = {}) const {
    if (trace_ != nullptr) {
      trace_->Note(pair, order, fate, living);
    }
  }
  // Tokens of each row behind the target prefix.
  int num_generated() const {
    return number_ - static_cast<int>(options_.constraints.prefix.size());
  }
  // One per row; none before SetCandidates.
  absl::Span<const RowCandidates> candidates() const { return candidates_; }
  // Only end tokens are left, because the maximum length is reached.
  bool forced_end() const { return forced_end_; }
  void ForceEnd() { forced_end_ = true; }

  // Also finds what each row's pairs start from, and what it reads of its list.
  void SetCandidates(absl::Span<const RowCandidates> candidates);

  bool IsEnd(int32_t token) const {
    return std::binary_search(options_.end_tokens.begin(), options_.end_tokens.end(), token);
  }
  // Whether the row's candidate may be chosen at all.
  bool IsOpen(size_t row, size_t candidate) const;
  double Rank(size_t row, size_t candidate) const {
    return rows_[row].base + static_cast<double>(RankScore(candidates_[row], candidate));
  }
  Pair MakePair(size_t row, size_t candidate) const;
  // Adds to the pair what scorers and members of an ensemble say of its token.
  void AddParts(const RowCandidates& list, Pair& pair) const;
  // The pairs of a group's rows, in no order; of all rows, if group is -1.
  void CollectPairs(int group, std::vector<Pair>& pairs) const;

 private:
  const SearchOptions& options_;
  const RowPipeline& pipeline_;
  absl::Span<LiveRow> rows_;
  int number_;
  SearchTrace* trace_;
  absl::Span<const RowCandidates> candidates_;
  bool forced_end_ = false;
};

// What runs for each candidate stands here, so that it is inlined in every strategy.
inline bool Step::IsOpen(size_t row, size_t candidate) const {
  const RowCandidates& list = candidates_[row];
  const float log_prob = list.log_probs[candidate];
  if (log_prob == kImpossible || RankScore(list, candidate) == kImpossible) {
    return false;
  }
  const float best_other = rows_[row].best_other;
  return options_.end_threshold == 0 || !IsEnd(list.tokens[candidate]) || forced_end_ ||
         best_other == kImpossible ||
         static_cast<double>(log_prob) > options_.end_threshold * static_cast<double>(best_other);
}

inline Pair Step::MakePair(size_t row, size_t candidate) const {
  const RowCandidates& list = candidates_[row];
  const LiveRow& parent = rows_[row];
  Pair pair;
  pair.token = list.tokens[candidate];
  pair.parent = static_cast<int32_t>(row);
  pair.log_prob = LogProb(list, candidate);
  pair.rank_score = RankScore(list, candidate);
  pair.rank = parent.base + static_cast<double>(pair.rank_score);
  pair.sum = parent.sum + static_cast<double>(pair.log_prob);
  pair.reward = parent.reward;
  pair.fused = parent.fused;
  AddParts(list, pair);
  pair.group = std::max(parent.group, 0);
  return pair;
}

inline void Step::AddParts(const RowCandidates& list, Pair& pair) const {
  const size_t num_scorers = options_.scorers.size();
  for (size_t i = 0; i < num_scorers; ++i) {
    pair.parts[i] = list.fused->score(i, pair.token);
    pair.fused +=
        static_cast<double>(options_.scorers[i].weight) * static_cast<double>(pair.parts[i]);
  }
  for (size_t i = 0; i < list.members.size(); ++i) {
    pair.parts[num_scorers + i] = list.members[i].log_prob(pair.token);
  }
}

// Takes pairs, which `next(pair)` gives best first until it returns false, until `size` of them
// live on. An end token's pair finishes if fewer than `size` rank above it.
template <typename Next>
void TakeBest(const Step& step, int size, int group, Next next, Choice& choice) {
  const size_t already = choice.living.size();
  const bool gives_rewards = step.pipeline().gives_rewards();
  Pair pair;
  double lowest = 0;
  Fate others = Fate::kBeam;
  for (int rank = 0; choice.living.size() - already < static_cast<size_t>(size) && next(pair);
       ++rank) {
    lowest = rank == 0 ? pair.rank - step.options().beam_threshold : lowest;
    pair.group = group;
    if (pair.rank < lowest) {
      others = Fate::kBeamThreshold;
      step.Note(pair, group, others, choice.living);
      break;
    }
    const bool ends = step.IsEnd(pair.token);
    if (ends && rank >= size) {
      step.Note(pair, group, Fate::kEndBelowBeam, choice.living);
      continue;
    }
    step.Note(pair, group, ends ? Fate::kAnswer : Fate::kKept, choice.living);
    if (gives_rewards) {
      pair.reward += step.pipeline().Reward(pair.parent, pair.token, pair.log_prob);
    }
    (ends ? choice.finishing : choice.living).push_back(pair);
    if (ends && rank == 0) {
      choice.best_ends[choice.best_ends.size() == 1 ? 0 : static_cast<size_t>(group)] = true;
    }
    if (ends && size == 1) {
      break;  // greedy search ends here
    }
  }
  while (step.trace() != nullptr && step.trace()->WantsMore(group) && next(pair)) {
    pair.group = group;
    const bool ends = step.IsEnd(pair.token);
    step.Note(pair, group, ends && others == Fate::kBeam ? Fate::kEndBelowBeam : others,
              choice.living);
  }
}

// TakeBest of pairs that are in order.
void TakeSorted(const Step& step, int size, int group, const std::vector<Pair>& pairs,
                Choice& choice);

// WatchedCandidates: rows' candidates together with the tokens that the rows watched, for
// strategies that rank tokens whether or not they are among a row's best.

// One thread at a time; keeps its memory from step to step.
class WatchedCandidates {
 public:
  // What was watched, then the other candidates; in no order as a whole. A view until the next
  // call, like the next.
  absl::Span<const RowCandidates> Joined(const Step& step);
  // What was watched alone, best first.
  absl::Span<const RowCandidates> Only(const Step& step);

 private:
  struct List {
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> rank_scores;

    void Add(int32_t token, float log_prob, float rank_score);
  };

  void Start(const Step& step);
  static void AddWatched(const LiveRow& row, const RowCandidates& candidates, List& list);
  static void AddOthers(const LiveRow& row, const RowCandidates& candidates, List& list);
  void Sort(List& list);
  void AddView(const RowCandidates& candidates, const List& list);

  std::vector<List> lists_;
  std::vector<RowCandidates> views_;
  std::vector<Pair> ordered_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STEP_H_
