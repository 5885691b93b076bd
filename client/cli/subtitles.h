// Recognised segments as subtitles: SubRip (.srt) and WebVTT (.vtt).
#ifndef BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_
#define BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_

#include <string>

#include "beamwright/v1/recognize.pb.h"

namespace beamwright::client {

// Where a segment's best hypothesis is heard: from its first token to the end of its last.
struct Heard {
  double begin_ms = 0;
  double end_ms = 0;
};
Heard WhenHeard(const v1::RecognizedSegment& segment);

enum class SubtitleForm { kSrt, kVtt };

// What a file of subtitles begins with.
inline const char* SubtitleHeader(SubtitleForm form) {
  return form == SubtitleForm::kVtt ? "WEBVTT\n\n" : "";
}

// One subtitle, of SubRip the `number`th, from 1, with the empty line behind it. Line breaks of the
// text become spaces, and what would end a subtitle is escaped.
std::string Subtitle(SubtitleForm form, int number, const v1::RecognizedSegment& segment);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_
