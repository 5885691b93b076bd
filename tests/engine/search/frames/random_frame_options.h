// Random options of labels, for a small vocabulary.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RANDOM_FRAME_OPTIONS_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RANDOM_FRAME_OPTIONS_H_

#include <random>
#include <vector>

#include "engine/search/frames/frame_options.h"
#include "tests/engine/search/frames/naive_frames.h"

namespace beamwright::search::frames_testing {

struct RandomFrameOptions {
  FrameOptions options;
  std::vector<Labels> entries;  // of options.allowed
  RowScorers row_scorers;       // of options.scorers
};

// Adds to `options`, whose vocabulary and blank are set, each option of labels with this chance.
RandomFrameOptions WithLabelOptions(FrameOptions options, double chance, std::mt19937& random);

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_RANDOM_FRAME_OPTIONS_H_
