// Subtitles (SubRip, WebVTT) and catalogues of gettext as documents. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_TEXT_FILES_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_TEXT_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/translate/markup.h"

namespace beamwright::translate {

// A unit for each cue; its translation has as many lines. In WebVTT texts have entities.
absl::StatusOr<Document> ParseSubtitles(absl::string_view text, bool is_vtt);

// A unit for each message without a translation; its forms of plural are those of msgid and
// msgid_plural. InvalidArgument: a string that is not quoted, with its line.
absl::StatusOr<Document> ParsePo(absl::string_view text);

// A string of a catalogue, with quotation marks.
std::string QuotedForPo(absl::string_view text);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_TEXT_FILES_H_
