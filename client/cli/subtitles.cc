#include "client/cli/subtitles.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/answers.h"
#include "client/cli/terminal.h"

namespace beamwright::client {
namespace {

std::string Time(double ms, char mark) {
  const auto all = static_cast<int64_t>(std::llround(ms));
  return absl::StrFormat("%02d:%02d:%02d%c%03d", all / 3'600'000, all / 60'000 % 60,
                         all / 1000 % 60, mark, all % 1000);
}

}  // namespace

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

std::string Subtitle(SubtitleForm form, int number, const v1::RecognizedSegment& segment) {
  const bool is_vtt = form == SubtitleForm::kVtt;
  const char mark = is_vtt ? '.' : ',';
  const Heard heard = WhenHeard(segment);
  std::string text =
      segment.hypotheses_size() == 0 ? "" : Printable(HypothesisText(segment.hypotheses(0)));
  absl::StrReplaceAll({{"-->", "->"}}, &text);
  if (is_vtt) {
    absl::StrReplaceAll({{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}, &text);
  }
  return absl::StrCat(is_vtt ? "" : absl::StrCat(number, "\n"), Time(heard.begin_ms, mark), " --> ",
                      Time(heard.end_ms, mark), "\n", text, "\n\n");
}

}  // namespace beamwright::client
