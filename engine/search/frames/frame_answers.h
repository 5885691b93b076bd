// What searches over frames do alike with their answers.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_ANSWERS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_ANSWERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/search/frames/frame_hypothesis.h"
#include "engine/search/frames/label_histories.h"

namespace beamwright::search {

// The n best: score descending, then fewer labels, then lexicographically by labels; of equal
// labels (Recombine::kNone) the first.
void SortAnswers(int n_best, std::vector<FrameHypothesis>& answers);

// Appends to `labels`, which the answer is known to begin with, what else all of its hypotheses
// begin with: of a search that is done those of `answers`, else those of the live `nodes`.
void AppendStable(const LabelHistories& histories, absl::Span<const int32_t> nodes,
                  std::vector<int32_t>& labels);
void AppendStable(absl::Span<const FrameHypothesis> answers, std::vector<int32_t>& labels);

// FailedPrecondition: no hypothesis can go on at the frame. Names the options that may be the
// cause.
absl::Status NothingLeft(const FrameOptions& options, int64_t frame);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_FRAME_ANSWERS_H_
