// Character references of HTML and XML: &eacute; &#233; &#xe9;
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_ENTITIES_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_ENTITIES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::translate {

// The bytes of the reference at the start of `text`, with & and ;, and its character in UTF-8 in
// `character`; 0: no known reference (the names are those of HTML 4).
size_t ReadEntity(absl::string_view text, std::string& character);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_ENTITIES_H_
