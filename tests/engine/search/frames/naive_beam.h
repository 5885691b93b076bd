// Beam searches over frames as their definition reads (docs/decoding.md, 'Frames'): whole label
// sequences in maps, every pair compared with every other. For beams that drop something.
#ifndef BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_BEAM_H_
#define BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_BEAM_H_

#include <vector>

#include "engine/search/frames/frame_options.h"
#include "tests/engine/search/frames/naive_frames.h"
#include "tests/engine/search/frames/naive_label_rules.h"

namespace beamwright::search::frames_testing {

struct NaiveBeamAnswer {
  Labels labels;
  double mass = 0;  // of what was merged
  double best = 0;  // of the best alignment
  double score = 0;
};

std::vector<NaiveBeamAnswer> NaiveCtcBeam(const FrameOptions& options, const NaiveLabelRules& rules,
                                          const CtcTable& table);
std::vector<NaiveBeamAnswer> NaiveTransducerBeam(const FrameOptions& options,
                                                 const NaiveLabelRules& rules, const Joiner& joiner,
                                                 int64_t num_frames);

}  // namespace beamwright::search::frames_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_SEARCH_FRAMES_NAIVE_BEAM_H_
