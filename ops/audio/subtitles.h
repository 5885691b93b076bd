// What was said in a recording as subtitles: SubRip (.srt) and WebVTT (.vtt).
#ifndef BEAMWRIGHT_OPS_AUDIO_SUBTITLES_H_
#define BEAMWRIGHT_OPS_AUDIO_SUBTITLES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::audio {

enum class SubtitleForm { kSrt, kVtt };

// What a file of subtitles begins with.
inline const char* SubtitleHeader(SubtitleForm form) {
  return form == SubtitleForm::kVtt ? "WEBVTT\n\n" : "";
}

// One subtitle, of SubRip the `number`th, from 1, with the empty line behind it. Line ends of the
// text become spaces, and what would end a subtitle or begin a tag of WebVTT is escaped.
std::string Subtitle(SubtitleForm form, int number, double begin_ms, double end_ms,
                     absl::string_view text);

}  // namespace beamwright::audio

#endif  // BEAMWRIGHT_OPS_AUDIO_SUBTITLES_H_
