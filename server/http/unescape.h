// Unescape: percent-encoding (RFC 3986, 2.1) of paths and queries.
#ifndef BEAMWRIGHT_SERVER_HTTP_UNESCAPE_H_
#define BEAMWRIGHT_SERVER_HTTP_UNESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::http {

// Writes `text` to `out` with each "%20" as the byte that it stands for. False if a '%' has no two
// hexadecimal digits behind it, and for "%00": a NUL ends a name for some readers and not for
// others.
bool Unescape(absl::string_view text, std::string& out);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_UNESCAPE_H_
