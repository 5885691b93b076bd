// The answers of a search while it runs: their scores with the bound that stops a search, the slots
// of their history, and the list of the best.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_
#define BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/options.h"
#include "engine/search/row_search.h"

namespace beamwright::search {

// From sums of log-probabilities to the scores that hypotheses are compared by, and the bound that
// lets a search stop early without changing its answer. Both read one table of norms, so that the
// bound holds in floating point and not only on paper (docs/decoding.md, 'Scores').

// What a hypothesis can still gain: see Processor.
struct Gains {
  bool any = false;  // something is added to log-probabilities
  double most = 0;   // a token's log-probability and all that is added are at most this; >= 0
};

// What the score of n generated tokens is divided by, n >= 1.
double LengthNorm(LengthPenalty penalty, double alpha, double n);

// Immutable once made; 16 bytes per token of max_length, nothing for LengthPenalty::kNone.
class ScoreTable {
 public:
  // The options must be valid.
  explicit ScoreTable(const SearchOptions& options, const Gains& gains = {});

  // The score of a hypothesis of `length` generated tokens, 1 to max_length, whose sum and rewards
  // add up to `total`: (total + word_reward * n) / norm(n), n = length, and the prefix's where it
  // is scored.
  double Normalise(double total, int length) const { return ScoreAt(total, length + offset_); }

  // No hypothesis that continues one of `length` generated tokens, 0 to max_length - 1, and at most
  // this total can score above it. Without rewards the total must not be above 0.
  //
  // Why: a log-probability is at most 0, so without rewards the total only falls, and rounded
  // addition is monotone. The continuation ends with n tokens, length < n <= max_length, and scores
  // at most (total + word_reward * n) / norm(n), because rounded division by the same number is
  // monotone too. Where there is no word reward, that is at most total / (the largest of these
  // norms), since total <= 0; else the largest is found by trying all n. With rewards a total grows
  // by at most gains.most a token; sums of several rewards may round otherwise than one product, so
  // that a hair is added.
  double Bound(double total, int length) const;

 private:
  double ScoreAt(double total, int n) const {
    const double numerator = word_reward_ == 0 ? total : total + word_reward_ * n;
    return norms_.empty() ? numerator : numerator / norms_[static_cast<size_t>(n)];
  }

  Gains gains_;
  double word_reward_;
  int offset_;      // length of a scored prefix
  int max_length_;  // of generated tokens
  int min_length_;
  std::vector<double> norms_;         // [offset + max_length + 1]; index 0 is not used
  std::vector<double> largest_from_;  // at each length: the largest norm from there on
};

// Coverage: how much attention each source position has got, for each row of a search, and the
// penalty for what got too little (docs/decoding.md, 'Coverage').

// A position that got less counts as if it had got this much, so that scores stay finite.
inline constexpr double kLeastCoverage = 1e-10;

// Movable. One thread at a time. Steps allocate only at first.
class Coverage {
 public:
  // weight: beta of the penalty, finite and >= 0; 0: nothing is kept and every penalty is 0.
  explicit Coverage(double weight) : weight_(weight) {}

  bool wanted() const { return weight_ > 0; }

  // Row i continues row parents[i] of the step before (none before the first) and pays rows[i]'s
  // attention. Sums are in double precision, in the order of the steps. InvalidArgument, naming the
  // row, if the weights are not numbers of at least 0 or their number is another than before.
  absl::Status AddStep(absl::Span<const int32_t> parents, absl::Span<const RowCandidates> rows);

  // Of a row of the last step: weight * sum over positions of log(min(what it got, 1)), in the
  // order of the positions; 0 or less.
  double Penalty(int row) const;

 private:
  double weight_;
  size_t num_positions_ = 0;
  std::vector<double> sums_;  // [row][position]
  std::vector<double> next_;
};

// One answer of a search.

// The log-probability of a token that cannot be chosen.
inline constexpr float kImpossible = -std::numeric_limits<float>::infinity();

enum class FinishReason : uint8_t {
  kEos,       // chose an end token; it is the last of `tokens`
  kLength,    // ended by the maximum length; the last token is an end token only if one was forced
  kDeadline,  // was under way when the search was cut (BeamSearch::Cut), for one of two reasons
  kShutdown,
  kStop,  // its last token completes a stop string
};

struct TopToken {
  int32_t token = 0;
  float log_prob = 0;
  friend bool operator==(const TopToken&, const TopToken&) = default;
};

struct Hypothesis {
  std::vector<int32_t> tokens;         // the target prefix, then as generated; no begin token
  std::vector<float> token_log_probs;  // one per token
  // Alternatives to each token, best first, the token itself among them if it is one of the best;
  // empty unless asked for.
  std::vector<std::vector<TopToken>> top_tokens;
  int prefix_length = 0;  // tokens that the request gave
  double prefix_sum = 0;  // of their log-probabilities
  double sum = 0;  // of the other log-probabilities, added in order in double precision; if the
                   // prefix is scored, of all
  double coverage = 0;  // coverage penalty, <= 0
  // The row of the step that each token was chosen from: what of a step belongs to the hypothesis.
  std::vector<int32_t> rows;
  double reward = 0;                // what options added to it (Processor::Reward)
  std::vector<double> scorer_sums;  // by scorer: what it said of the tokens that `sum` is over
  std::vector<double> member_sums;  // the same by decoder of an ensemble
  // Sum, reward and weighted scorers' sums after word reward and length penalty, plus coverage.
  double score = 0;
  int traced = -1;  // the number of its last token's candidate in the trace
  FinishReason reason = FinishReason::kEos;
};

// What a search did, step by step, in the form that GatherTree reads: fixed columns ("slots") and,
// for each step, who got a token and whom it continues. No row ever copies its history; the paths
// are found once, at the end.
//
// A search with beam B and n-best list N has B + N slots. Live row i of a step is in slot i; a
// finished hypothesis in one of the slots B to B + N - 1, where it rests: it gets no token any more
// and is its own parent. A slot may be given to a better finished hypothesis later; what it held
// before is then forgotten, because the walk back from the end leaves the slot at the new one.

// Not thread-safe. 16 bytes per slot and step, and 4 per part; grows as the search goes on, up to
// max_steps.
class SlotHistory {
 public:
  SlotHistory(int num_slots, int max_steps, int num_parts = 0);

  // A new last step in which every slot rests. At most max_steps times.
  void AddStep();
  // In the last step, `slot` gets a token and continues slot `parent` of the step before.
  // parts: num_parts or more, of which these are kept.
  void Set(int slot, int parent, int32_t token, float log_prob, absl::Span<const float> parts = {});

  int num_steps() const { return num_steps_; }
  int num_slots() const { return num_slots_; }

  // All [num_steps, num_slots], row-major. Views until the next AddStep.
  // The slot's own number where it got a token, else -1.
  absl::Span<const int32_t> slot_ids() const { return slot_ids_; }
  // The slot of the step before; the slot's own number where it got no token.
  absl::Span<const int32_t> slot_parents() const { return slot_parents_; }
  // Token and log-probability; -1 and 0 without a token.
  absl::Span<const int32_t> tokens() const { return tokens_; }
  absl::Span<const float> log_probs() const { return log_probs_; }

  int32_t slot_id(int step, int slot) const { return slot_ids_[Index(step, slot)]; }
  int32_t slot_parent(int step, int slot) const { return slot_parents_[Index(step, slot)]; }
  int32_t token(int step, int slot) const { return tokens_[Index(step, slot)]; }
  float log_prob(int step, int slot) const { return log_probs_[Index(step, slot)]; }
  float part(int step, int slot, int part) const {
    return parts_[Index(step, slot) * static_cast<size_t>(num_parts_) + static_cast<size_t>(part)];
  }

  // Lexicographic order of the token sequences that end in slots a and b of a step, both of which
  // got a token there: negative, 0 or positive. step may be -1 (both empty). Walks back until the
  // two paths meet.
  int ComparePaths(int step, int a, int b) const;

 private:
  size_t Index(int step, int slot) const {
    return static_cast<size_t>(step) * static_cast<size_t>(num_slots_) + static_cast<size_t>(slot);
  }

  int num_slots_;
  int max_steps_;
  int num_parts_;
  int num_steps_ = 0;
  std::vector<int32_t> slot_ids_;
  std::vector<int32_t> slot_parents_;
  std::vector<int32_t> tokens_;
  std::vector<float> log_probs_;
  std::vector<float> parts_;  // [num_steps, num_slots, num_parts]
};

// NBestList: the best hypotheses of a search so far, and the slots of the history that the finished
// ones rest in.

// One choice of a step: a row continued by a token.
struct Pair {
  double rank = 0;     // what pairs are ranked by
  double sum = 0;      // of log-probabilities, this token's included
  double reward = 0;   // of rewards, this token's included
  double fused = 0;    // what scorers add, this token included
  int32_t parent = 0;  // row, and its slot, in the step before
  int32_t token = 0;
  float rank_score = 0;  // the token's share in rank
  float log_prob = 0;
  int32_t group = 0;      // or sample
  int32_t bank = 0;       // constraint tokens met
  TokenParts parts = {};  // of the token
};

struct ListEntry {
  double key = 0;  // entries are ordered by it, descending
  double score = 0;
  double sum = 0;
  double reward = 0;
  double coverage = 0;
  int length = 0;  // steps, the prefix's included
  int slot = 0;
  int traced = -1;  // its number in the search's trace
  FinishReason reason = FinishReason::kEos;
};

// Ordered by key descending, then fewer tokens, then lexicographically by tokens; distinct.
class NBestList {
 public:
  // Finished hypotheses rest in slots first_slot to first_slot + capacity - 1.
  NBestList(int capacity, int first_slot) : capacity_(capacity), first_slot_(first_slot) {
    entries_.reserve(static_cast<size_t>(capacity));
  }

  // Puts the pair, which the last step of the history is about, on the list if it belongs there.
  // live_slot: where the pair stands already; -1: it gets one of the list's slots. entry.length and
  // entry.slot are set here. False: it does not belong there.
  bool Enter(const Pair& pair, ListEntry entry, int live_slot, SlotHistory& history);

  // Puts the entries of `other`, which stand behind all of this list, at its end while it is not
  // full.
  void Append(const NBestList& other);

  int capacity() const { return capacity_; }
  bool full() const { return entries_.size() == static_cast<size_t>(capacity_); }
  const std::vector<ListEntry>& entries() const { return entries_; }

 private:
  // Negative: the pair stands before the entry; 0: it is the same hypothesis.
  static int Compare(const Pair& pair, const ListEntry& own, const ListEntry& other,
                     const SlotHistory& history);

  int capacity_;
  int first_slot_;
  std::vector<ListEntry> entries_;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_N_BEST_LIST_H_
