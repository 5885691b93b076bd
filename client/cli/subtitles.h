// Recognised segments as subtitles.
#ifndef BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_
#define BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_

#include <string>

#include "beamwright/v1/recognize.pb.h"
#include "ops/audio/subtitles.h"

namespace beamwright::client {

// Where a segment's best hypothesis is heard: from its first token to the end of its last.
struct Heard {
  double begin_ms = 0;
  double end_ms = 0;
};
Heard WhenHeard(const v1::RecognizedSegment& segment);

using audio::SubtitleForm;

// A segment as a subtitle (ops/audio/subtitles.h), its text safe for a terminal.
std::string Subtitle(SubtitleForm form, int number, const v1::RecognizedSegment& segment);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_SUBTITLES_H_
