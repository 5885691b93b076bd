// Texts of office files as documents: a unit for each paragraph. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_MARKUP_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_MARKUP_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/translate/markup.h"

namespace beamwright::translate {

// An XML part of a .docx (WordprocessingML). The format that most of a paragraph's text has becomes
// the format of its translation; stretches of other formats, links and insertions are elements.
// Pictures, notes' numbers and unknown tags are tags without content, but paragraphs in them, of
// text boxes and notes, are further units; tabs and line breaks are read as spaces; fields are
// verbatim elements. Begins of bookmarks and comments go to the begin of their paragraph, ends to
// its end; marks of the spelling check are left out. A paragraph without letters, or in which a
// field only begins or ends, or with a format beyond 4 KiB stays as it is. InvalidArgument: a
// paragraph that is not balanced or is nested too deep, a document type, formats that would be
// repeated to more than 32 MiB.
absl::StatusOr<Document> ParseWordPart(absl::string_view xml);

// The same of an XML part of an .odt (OpenDocument). White space of its text is one space.
absl::StatusOr<Document> ParseOpenDocumentPart(absl::string_view xml);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_MARKUP_H_
