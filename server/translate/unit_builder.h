// Tags and character references of HTML and XML, and the MarkedText that is made of the tags and
// texts of a paragraph. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_UNIT_BUILDER_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_UNIT_BUILDER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/translate/marked_text.h"

namespace beamwright::translate {

// Tags and character references of HTML and XML.

// Character references of HTML and XML: &eacute; &#233; &#xe9;

// The bytes of the reference at the start of `text`, with & and ;, and its character in UTF-8 in
// `character`; 0: no known reference (the names are those of HTML 4).
size_t ReadEntity(absl::string_view text, std::string& character);

// A tag of HTML or XML.

struct Tag {
  size_t size = 0;  // bytes; 0: no tag
  std::string name;
  bool is_closing = false;
  bool is_empty = false;  // <br/>
};

// The tag at the start of a text, which begins with <. folds_case: its name in small letters.
Tag ReadTag(absl::string_view text, bool folds_case);

// UnitBuilder: makes a MarkedText of the tags and texts of a paragraph.

struct MarkupEvent {
  enum class Kind { kText, kOpen, kClose, kSingle, kVerbatim };
  Kind kind = Kind::kText;
  std::string bytes;  // as they are written; of a text what is to be translated
  std::string name;   // of an opening or closing tag
  std::string shown;  // of verbatim bytes: what the model reads in their place
};

// The unit of these events. A closing tag ends the last element of its name that is open. A tag
// without its other half is open from the begin or to the end of the unit where no element is
// around it, else a tag without content. Within texts URLs, addresses and placeholders become
// verbatim elements; escape: as WriteMarked. InvalidArgument: more than kMaxNested elements are
// open.
absl::StatusOr<MarkedText> BuildUnit(std::vector<MarkupEvent> events, bool escape);

// The bytes at the start of `text` that stay as they are in any language: a URL, an address, a
// placeholder; 0: no such bytes. before: the byte before them, a space at the begin.
size_t ProtectedBytes(absl::string_view text, char before);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_UNIT_BUILDER_H_
