// Beam search in its plainest form, the oracle for the real one: whole token sequences, a full sort
// of all pairs in each step, sums in double precision, no slots, no bound. It shares the options
// struct with engine/search and nothing else. Stop mode kSafe runs to the end here, like kNever:
// that the answers are equal is what the tests are about.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_REFERENCE_SEARCH_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_REFERENCE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/search/options.h"

namespace beamwright::search_testing {

// The log-probabilities of all vocabulary_size tokens after the tokens generated so far (without
// the begin token). Banned tokens are the model's business: -infinity, without share in the sum.
using ReferenceModel = std::function<std::vector<float>(const std::vector<int32_t>& prefix)>;

struct ReferenceHypothesis {
  std::vector<int32_t> tokens;
  std::vector<float> token_log_probs;
  double sum = 0;
  double score = 0;
  bool ends = false;  // with an end token; else cut at the maximum length
};

struct ReferenceResult {
  std::vector<ReferenceHypothesis> hypotheses;  // empty: no row was left and nothing had finished
  int steps = 0;
  int num_finished = 0;  // with an end token, whether they are among the hypotheses or not
};

ReferenceResult ReferenceSearch(const ReferenceModel& model, const search::SearchOptions& options);

// The formulas of docs/decoding.md, 'Scores'.
double ReferenceScore(double sum, int length, const search::SearchOptions& options);

// True if a stands before b in an n-best list.
bool ReferencePrecedes(const ReferenceHypothesis& a, const ReferenceHypothesis& b);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_REFERENCE_SEARCH_H_
