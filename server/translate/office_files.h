// Office files, .docx and .odt: zip archives of XML parts, and their texts as documents.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_FILES_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/translate.pb.h"
#include "server/translate/markup.h"

namespace beamwright::translate {

// Office files, .docx and .odt: zip archives of XML parts.

// Most bytes of a file's XML parts together when they are unpacked, and most entries of a file.
inline constexpr size_t kMaxOfficeXmlBytes = size_t{8} << 20;
inline constexpr int64_t kMaxOfficeEntries = 4096;

enum class OfficeKind { kNone, kDocx, kOdt };

// Of a request's format.
OfficeKind OfficeKindOf(v1::TextFormat format);

struct OfficePart {
  std::string name;
  std::string xml;  // UTF-8
};

// The parts that hold a file's text: of a .docx the document, its headers, footers and notes; of an
// .odt content.xml and styles.xml. Other entries are not unpacked, and a name is never one of a
// file on disk. InvalidArgument: not such a file, an encrypted one, one beyond the limits, two
// entries of one name, a part that is not UTF-8.
absl::StatusOr<std::vector<OfficePart>> ReadOfficeFile(absl::string_view file, OfficeKind kind);

// The file with these parts; the bytes of all other entries are those of `file`. The same parts
// give the same bytes.
absl::StatusOr<std::string> WriteOfficeFile(absl::string_view file,
                                            absl::Span<const OfficePart> parts);

// Texts of office files as documents: a unit for each paragraph.

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

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_FILES_H_
