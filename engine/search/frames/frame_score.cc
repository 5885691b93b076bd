#include "engine/search/frames/frame_score.h"

#include "ops/base/status.h"

namespace beamwright::search {

absl::Status CheckScoredLabels(const FrameOptions& options, const std::vector<int32_t>& labels) {
  if (labels.size() > static_cast<size_t>(kMaxLength)) {
    return Invalid("there are ", labels.size(), " labels, at most ", kMaxLength, " are allowed");
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= options.vocabulary_size) {
      return Invalid("labels[", i, "] is ", labels[i],
                     ", must be in [0, vocabulary_size = ", options.vocabulary_size, ")");
    }
    if (labels[i] == options.blank) {
      return Invalid("labels[", i, "] is the blank, which is no label");
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::search
