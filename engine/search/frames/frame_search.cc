#include "engine/search/frames/frame_search.h"

namespace beamwright::search {

int MetRule(absl::Span<const EndpointRule> rules, int num_labels, int64_t trailing_blanks,
            int64_t num_frames) {
  for (size_t i = 0; i < rules.size(); ++i) {
    const EndpointRule& rule = rules[i];
    if ((num_labels > 0 || !rule.needs_label) && trailing_blanks >= rule.min_trailing_blanks &&
        num_frames >= rule.min_frames) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int MetRule(absl::Span<const EndpointRule> rules, const FrameSearch& search) {
  return MetRule(rules, search.num_labels(), search.trailing_blanks(), search.frame());
}

}  // namespace beamwright::search
