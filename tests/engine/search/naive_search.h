// Beam search with every option in its plainest form, the oracle for the real one: whole token
// sequences, a full sort of all pairs in each step, rules applied to all scores one token at a
// time, nothing kept from step to step but the hypotheses, no bound. It shares the options struct
// with engine/search and nothing else. docs/decoding.md is what it was written from.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_SEARCH_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/search/options.h"

namespace beamwright::search_testing {

// A model's raw scores for all tokens after a sequence (without the begin token).
using RawModel = std::function<std::vector<float>(const std::vector<int32_t>& tokens)>;

struct NaiveHypothesis {
  std::vector<int32_t> tokens;  // with the target prefix
  std::vector<float> token_log_probs;
  double sum = 0;
  double reward = 0;
  std::vector<double> scorer_sums;
  double fused = 0;
  double score = 0;
  bool ends = false;   // closed by an end token
  bool cut = false;    // ended by the maximum length
  bool stops = false;  // ended by a stop string
  int group = 0;
};

struct NaiveResult {
  std::vector<NaiveHypothesis> hypotheses;
  bool dead = false;  // no answer: nothing was left to choose, or nothing that may be cut
  int steps = 0;
};

struct NaiveRequest {
  search::SearchOptions options;
  // What options.constraints.allowed was made from; empty: everything is allowed.
  std::vector<std::vector<int32_t>> entries;
  // What options.scorers say: log-probabilities of all tokens after a sequence.
  std::vector<RawModel> scorers;
  // What options.stop_strings was made from, and what each token writes.
  std::vector<std::string> stops;
  std::vector<std::string> writes;
  // What options.constraints.text was made from: its texts are any number of these in a row.
  std::vector<std::string> units;
};

// No sampling. Stop mode kSafe runs to the end here, like kNever: that the answers are equal is
// what is tested.
NaiveResult NaiveSearch(const RawModel& model, const NaiveRequest& request);

// log-softmax in double, rounded; no value above 0; -infinity stays, NaN never arises.
std::vector<float> PlainLogSoftmax(const std::vector<float>& values);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_NAIVE_SEARCH_H_
