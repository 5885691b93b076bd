// Office files, .docx and .odt: zip archives of XML parts.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PACKAGE_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PACKAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/translate.pb.h"

namespace beamwright::translate {

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

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_OFFICE_PACKAGE_H_
