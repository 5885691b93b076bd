// Documents: texts with markup, cut into units that are translated, each a paragraph or the like,
// and the bytes between them, which stay as they are.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_MARKUP_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_MARKUP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/translate.pb.h"
#include "server/translate/marked_text.h"

namespace beamwright::translate {

struct Document {
  struct Part {
    std::string kept;  // written as it is
    int unit = -1;     // else the number of a unit
    int lines = 1;     // over which the unit's translation is spread
    // Written as lines of a string of a .po file.
    bool is_quoted = false;
  };
  std::vector<Part> parts;
  std::vector<MarkedText> units;
  bool escape = false;  // <, > and & of texts are entities
  // Texts within others: an insert is written for its mark in bytes that are kept.
  std::vector<std::vector<Part>> inserts;
};

// The mark of an insert: a character that neither XML nor text has, and the number.
inline constexpr char kInsertBegin = '\x01';
inline constexpr char kInsertEnd = '\x02';
std::string InsertMark(size_t number);

// Elements that are nested deeper are refused.
inline constexpr size_t kMaxNested = 64;

// In all formats URLs, addresses and placeholders ({name}, %s, ${x}) are verbatim elements.
//
// HTML: units are what is between tags of blocks (p, div, li, td, br and others). Tags within them
// are elements: one that is closed in another unit is open to its unit's end. Verbatim: code, kbd,
// samp, var, tt, what has translate="no" or the class notranslate, unknown entities. Kept: script,
// style, textarea, svg, comments, declarations. White space within a unit is one space, except in
// pre. XML: the same without HTML's names; InvalidArgument if tags are not balanced.
//
// SRT, VTT: a unit a cue, with its tags as elements. PO: a unit for each msgid whose msgstr is
// empty.
//
// InvalidArgument: nested too deep. options: format and the lists of tags.
absl::StatusOr<Document> ParseDocument(absl::string_view text, const v1::TranslateRequest& options);

// The document with these texts in the place of its units.
std::string WriteDocument(const Document& document, absl::Span<const MarkedText> units);

// Subtitles (SubRip, WebVTT) and catalogues of gettext as documents.

// A unit for each cue; its translation has as many lines. In WebVTT texts have entities.
absl::StatusOr<Document> ParseSubtitles(absl::string_view text, bool is_vtt);

// A unit for each message without a translation; its forms of plural are those of msgid and
// msgid_plural. InvalidArgument: a string that is not quoted, with its line.
absl::StatusOr<Document> ParsePo(absl::string_view text);

// A string of a catalogue, with quotation marks.
std::string QuotedForPo(absl::string_view text);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_MARKUP_H_
