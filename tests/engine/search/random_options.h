// Random requests: every option of a search, alone and together.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_RANDOM_OPTIONS_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_RANDOM_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/grammar/constraint.h"
#include "engine/search/options.h"
#include "tests/engine/search/naive_search.h"

namespace beamwright::search_testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int In(int low, int high) {  // both included
    return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return In(1, n) == 1; }
  // Tokens that do not end a hypothesis; empty without any.
  std::vector<int32_t> Tokens(const search::SearchOptions& options, int least, int most);

 private:
  std::mt19937_64 engine_;
};

struct RandomCase {
  NaiveRequest request;  // may contradict itself: Validate decides
  RawModel model;
  std::string name;
};

// What every search has: vocabulary, beam, lengths, length penalty, stop mode, end and banned
// tokens.
void RandomiseSearch(Random& random, search::SearchOptions& options);

// Answers are any number of the units in a row; `writes`: what each token writes.
std::shared_ptr<const grammar::Constraint> ConstraintOf(const std::vector<std::string>& units,
                                                        const std::vector<std::string>& writes,
                                                        const std::vector<int32_t>& end_tokens);

// Each option is on in one of `sparsity` cases.
RandomCase MakeRandomCase(uint64_t seed, int sparsity);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_RANDOM_OPTIONS_H_
