// Comparison of an answer of a search whose beam holds everything with all that enumeration found.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_EXPECT_ANSWERS_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_EXPECT_ANSWERS_H_

#include <functional>
#include <vector>

#include "engine/search/frames/frame_search.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

// What options add to a labelling's log-probability; -infinity: it may not be answered.
using NaiveGain = std::function<double(const Labels&)>;

// `answers` has every labelling of `sums` that `gain` allows, best first, with its sum, best path,
// times and score. is_max: scores count the best path alone.
// close: how far numbers may be apart.
void ExpectAll(
    const std::vector<FrameHypothesis>& answers, const NaiveSums& sums, bool is_max,
    const NaiveGain& gain = [](const Labels&) { return 0.0; }, double close = 1e-6);

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_EXPECT_ANSWERS_H_
