// Beam search with every option in its plainest form, the oracle for the real one: whole token
// sequences, a full sort of all pairs in each step, rules applied to all scores one token at a
// time, nothing kept from step to step but the hypotheses, no bound. It shares the options struct
// with server/search and nothing else. docs/decoding.md is what it was written from.
#ifndef BEAMWRIGHT_TESTS_SERVER_SEARCH_NAIVE_SEARCH_H_
#define BEAMWRIGHT_TESTS_SERVER_SEARCH_NAIVE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "server/search/options.h"

namespace beamwright::search_testing {

// A model's raw scores for all tokens after a sequence (without the begin token).
using RawModel = std::function<std::vector<float>(const std::vector<int32_t>& tokens)>;

struct NaiveHypothesis {
  std::vector<int32_t> tokens;
  std::vector<float> token_log_probs;
  double sum = 0;
  double score = 0;
  double reward = 0;
  bool ends = false;  // closed by an end token
  bool cut = false;   // ended by the maximum length
  double rank = 0;    // of the last pair
  int bank = 0;       // constraint tokens met
  int group = 0;
};

struct NaiveResult {
  std::vector<NaiveHypothesis> hypotheses;
  bool dead = false;  // nothing was left to choose and nothing had finished
  int steps = 0;
};

// Stop mode kSafe runs to the end here, like kNever: that the answers are equal is what is tested.
NaiveResult NaiveSearch(const RawModel& model, const search::SearchOptions& options);

// log-softmax in double, rounded; no value above 0; -infinity stays, NaN never arises.
std::vector<float> PlainLogSoftmax(const std::vector<float>& values);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_SERVER_SEARCH_NAIVE_SEARCH_H_
