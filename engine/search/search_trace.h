// SearchTrace: what a search considered in each step and what became of it (docs/decoding.md,
// 'Trace'). Strategies note each pair in the order in which they take them; the search says which
// of those that ended are in its answer. A search without one has a null pointer in its place.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_SEARCH_TRACE_H_
#define BEAMWRIGHT_ENGINE_SEARCH_SEARCH_TRACE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/search/n_best_list.h"
#include "engine/search/options.h"

namespace beamwright::search {

// What became of a candidate; each as TraceFate in decode.proto.
enum class Fate : uint8_t {
  kKept,
  kAnswer,
  kBeam,
  kBeamThreshold,
  kEndBelowBeam,
  kEndThreshold,
  kNoProbability,
  kEndOfAlternative,
  kAlternativeMinProb,
  kAlternativeDone,
  kScoreThreshold,
  kNotListed,
  kReplaced,
  kStopped,
  kIncomplete,
};

struct TracedRow {
  int32_t parent = 0;
  int32_t token = 0;
  double sum = 0;
  double reward = 0;
  double fused = 0;
  double offset = 0;
  int32_t group = 0;
};

struct TracedCandidate {
  double rank = 0;
  double diversity = 0;
  double score = 0;  // only if `ended`
  int32_t row = 0;
  int32_t token = 0;
  float log_prob = 0;
  float rank_score = 0;
  int32_t place = 0;  // in the order of its group, from 1; 0: it could not be chosen
  int32_t next_row = -1;
  int32_t group = 0;
  bool ended = false;
  Fate fate = Fate::kBeam;
  std::array<float, kMaxScorers> scorers = {};
};

struct TracedStep {
  std::vector<TracedRow> rows;
  std::vector<TracedCandidate> candidates;
  int num_omitted = 0;
};

// Not thread-safe.
class SearchTrace {
 public:
  // Rows and candidates of all steps together; a step that might not fit, and all after it, are
  // left out: about half of gRPC's usual limit of 4 MiB for a reply (docs/decoding.md, 'Trace').
  static constexpr int64_t kMaxEntries = 16384;

  explicit SearchTrace(const SearchOptions& options);

  // What the trace of such a search holds at most.
  static int64_t MaxBytes(const SearchOptions& options);

  // A new step, in which the following four record what becomes of the rows' candidates.
  void StartStep(std::vector<TracedRow> rows);
  // The next pair of the strategy's `order`-th order: 0, or its group where groups are ranked
  // apart. `living`: what lives on so far, for what earlier groups' choice takes off its rank.
  void Note(const Pair& pair, int order, Fate fate, absl::Span<const Pair> living);
  // A pair that could not be chosen.
  void NoteClosed(const Pair& pair, Fate fate);
  // Whether more dropped pairs of this order would be listed.
  bool WantsMore(int order) const;
  // num_candidates: those of the step, listed or not.
  void EndStep(int num_candidates);

  // What names a pair that the last step chose; kNone if it is not in the trace.
  int NumberOf(const Pair& pair) const;
  // It ended, with this score; the next says that it ended or what else became of it.
  void SetScore(int number, double score);
  void SetFate(int number, Fate fate);
  // A pair of the last step that was noted as kept has no row; those behind it move up.
  void TakeRow(int number);
  // The search is over; `answers` are the numbers of what it answers.
  void Finish(absl::Span<const int> answers);

  const std::vector<TracedStep>& steps() const { return steps_; }
  bool truncated() const { return truncated_; }
  static constexpr int kNone = -1;

 private:
  struct Order {
    int place = 0;   // pairs so far
    int others = 0;  // of these, dropped and listed
  };

  TracedCandidate& At(int number);
  void Add(const Pair& pair, int place, double diversity, Fate fate);

  int most_others_;   // listed in each order
  int most_entries_;  // of one step
  double diversity_penalty_;
  std::vector<TracedStep> steps_;
  std::vector<int> starts_;  // of each step: the number of its first candidate
  std::vector<Order> orders_;
  int64_t num_entries_ = 0;
  bool truncated_ = false;
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_SEARCH_TRACE_H_
