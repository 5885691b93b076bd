// Endpoint rules: when a stream of frames has come to the end of an utterance (as Kaldi and sherpa
// have them). Pure functions of what a search reports of its leading hypothesis, counted in frames,
// so that a segment's end does not depend on when frames arrived.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_ENDPOINT_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_ENDPOINT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/search/frames/frame_search.h"

namespace beamwright::search {

// Met if all of it is.
struct EndpointRule {
  bool needs_label = false;         // the leading hypothesis has a label
  int64_t min_trailing_blanks = 0;  // frames behind its last label
  int64_t min_frames = 0;           // frames of the segment
  friend bool operator==(const EndpointRule&, const EndpointRule&) = default;
};

// The number of the first rule that is met; -1: none.
int MetRule(absl::Span<const EndpointRule> rules, int num_labels, int64_t trailing_blanks,
            int64_t num_frames);
int MetRule(absl::Span<const EndpointRule> rules, const FrameSearch& search);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_ENDPOINT_H_
