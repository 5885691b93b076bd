#include "client/cli/subtitles.h"

#include <algorithm>

#include "client/cli/answers.h"
#include "client/cli/terminal.h"

namespace beamwright::client {

Heard WhenHeard(const v1::RecognizedSegment& segment) {
  Heard heard{segment.begin_ms(), segment.end_ms()};
  if (segment.hypotheses_size() == 0 || segment.hypotheses(0).token_frames_size() == 0 ||
      segment.num_frames() == 0) {
    return heard;
  }
  const v1::Hypothesis& best = segment.hypotheses(0);
  const double frame_ms =
      (segment.end_ms() - segment.begin_ms()) / static_cast<double>(segment.num_frames());
  const int last = best.token_frames_size() - 1;
  const int duration = last < best.token_durations_size() ? best.token_durations(last) : 1;
  heard.begin_ms = segment.begin_ms() + frame_ms * best.token_frames(0);
  heard.end_ms = segment.begin_ms() + frame_ms * (best.token_frames(last) + std::max(duration, 1));
  return heard;
}

std::string Subtitle(audio::SubtitleForm form, int number, const v1::RecognizedSegment& segment) {
  const Heard heard = WhenHeard(segment);
  return audio::Subtitle(
      form, number, heard.begin_ms, heard.end_ms,
      segment.hypotheses_size() == 0 ? "" : Printable(HypothesisText(segment.hypotheses(0))));
}

}  // namespace beamwright::client
