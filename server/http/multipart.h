// Bodies of type multipart/form-data (RFC 7578 and RFC 2046, 5.1.1), as programs and browsers send
// files. The reader is strict: what a sender never writes is refused, not guessed at.
#ifndef BEAMWRIGHT_SERVER_HTTP_MULTIPART_H_
#define BEAMWRIGHT_SERVER_HTTP_MULTIPART_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::http {

inline constexpr size_t kMaxFormParts = 64;
inline constexpr size_t kMaxFormHeadBytes = 4096;  // of one part

struct FormPart {
  std::string name;
  std::string filename;       // empty: it is no file
  absl::string_view content;  // of the body
};

// The parts of a body, in their order; names may repeat. content_type: the header. InvalidArgument:
// another type, no boundary or a wrong one, bytes outside of parts, a part without a name, a head
// with more than kMaxFormHeadBytes, a transfer encoding, more than kMaxFormParts parts, no last
// boundary.
absl::StatusOr<std::vector<FormPart>> ParseForm(absl::string_view content_type,
                                                absl::string_view body);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_MULTIPART_H_
