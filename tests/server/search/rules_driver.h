// Runs a BeamSearch over a model's raw scores, applying its rules as ops/base/row_rules.h words
// them, with plain loops for scan and GatherTree.
#ifndef BEAMWRIGHT_TESTS_SERVER_SEARCH_RULES_DRIVER_H_
#define BEAMWRIGHT_TESTS_SERVER_SEARCH_RULES_DRIVER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/search/beam_search.h"
#include "tests/server/search/naive_search.h"
#include "tests/server/search/search_driver.h"

namespace beamwright::search_testing {

// What the scan answers for one row. No draws.
struct PlainScan {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  std::vector<float> rank_scores;
  std::vector<float> watched;
};
PlainScan ScanPlainly(std::vector<float> scores, const RowRules& rules, int count);

// scorers: what options.scorers say. Runs to the end; the first error of the search is returned.
// Structural faults are test failures.
absl::StatusOr<DrivenResult> DriveRaw(const RawModel& model, const search::SearchOptions& options,
                                      int extra_candidates = 0,
                                      const std::vector<RawModel>& scorers = {});

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_SERVER_SEARCH_RULES_DRIVER_H_
