// Runs a BeamSearch as the engine does, with plain loops for model, scan and GatherTree.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_SEARCH_DRIVER_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_SEARCH_DRIVER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/search/beam_search.h"

namespace beamwright::search_testing {

// Log-probabilities of all tokens after a prefix, given the tokens that the row's rules ban.
using DrivenModel = std::function<std::vector<float>(const std::vector<int32_t>& prefix,
                                                     const std::vector<int32_t>& banned)>;

struct DrivenResult {
  std::vector<search::Hypothesis> hypotheses;
  int steps = 0;
  int64_t num_finished = 0;
  int64_t finished_slot_uses = 0;  // how often a slot was given to a finished hypothesis
};

// The `count` best candidates of a row, best first.
struct Candidates {
  std::vector<int32_t> tokens;
  std::vector<float> log_probs;
};
Candidates BestOf(const std::vector<float>& log_probs, int count);

// Runs to the end, with `extra_candidates` more per row than the search asks for. The first error
// of the search is returned. Structural faults (rows, slots) are test failures.
absl::StatusOr<DrivenResult> Drive(const DrivenModel& model, const search::SearchOptions& options,
                                   int extra_candidates = 0);

// For every slot its path back from the last step, [num_steps, num_slots]; -1 where the slot was
// at rest.
std::vector<int32_t> WalkPaths(const search::SlotHistory& history);

}  // namespace beamwright::search_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_SEARCH_DRIVER_H_
