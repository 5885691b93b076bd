// A random model and a random search of it without further options.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_PLAIN_CASE_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_PLAIN_CASE_H_

#include <string>

#include "tests/engine/search/random_options.h"
#include "tests/engine/search/search_driver.h"
#include "tests/engine/search/table_model.h"

namespace beamwright::search_testing {

struct PlainCase {
  TableModel model;
  search::SearchOptions options;
  std::string name;
};

PlainCase MakePlainCase(uint64_t seed);

// extra_candidates: for each row, beyond those that the search asks for.
absl::StatusOr<DrivenResult> DrivePlain(const PlainCase& c, const search::SearchOptions& options,
                                        int extra_candidates = 0);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_PLAIN_CASE_H_
