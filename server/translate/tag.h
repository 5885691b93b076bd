// Tags and character references of HTML and XML. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_TAG_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_TAG_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::translate {

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

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_TAG_H_
