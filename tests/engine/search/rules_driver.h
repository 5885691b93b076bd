// Runs a BeamSearch over a model's raw scores, applying its rules as ops/base/row_rules.h words
// them, with plain loops for scan and GatherTree.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_RULES_DRIVER_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_RULES_DRIVER_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/search/beam_search.h"
#include "tests/engine/search/naive_search.h"
#include "tests/engine/search/search_driver.h"

namespace beamwright::search_testing {

// What the scan answers for one row. No draws.
struct PlainScan {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
  std::vector<float> rank_scores;
  std::vector<float> watched;
};
PlainScan ScanPlainly(std::vector<float> scores, const RowRules& rules, int count);

struct DriveHooks {
  // Weights over source positions after a sequence; null: none.
  std::function<std::vector<float>(const std::vector<int32_t>& tokens)> attention;
  // Called after each step, with the tokens of each live row.
  std::function<void(const std::vector<std::vector<int32_t>>& rows)> after_step;
  std::vector<RawModel> scorers;  // what options.scorers say
  std::vector<search::ScorerWeight> weights;
  int extra_candidates = 0;
};

// Steps rows until the search is done; its first error is returned.
absl::Status StepRows(const RawModel& model, const DriveHooks& hooks, search::RowSearch& search);

// scorers: what options.scorers say. Runs to the end; the first error of the search is returned.
// Structural faults are test failures.
absl::StatusOr<DrivenResult> DriveRaw(const RawModel& model, const search::SearchOptions& options,
                                      int extra_candidates = 0,
                                      const std::vector<RawModel>& scorers = {});

// The answer of a search that is done.
absl::StatusOr<DrivenResult> CollectDriven(const search::BeamSearch& search);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_RULES_DRIVER_H_
