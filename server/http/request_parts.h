// What requests hold besides JSON: paths, percent-encoding, and forms.
#ifndef BEAMWRIGHT_SERVER_HTTP_REQUEST_PARTS_H_
#define BEAMWRIGHT_SERVER_HTTP_REQUEST_PARTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/serving/caller.h"

namespace beamwright::http {

// What the paths of the HTTP API name.

inline constexpr char kTranscriptions[] = "/v1/audio/transcriptions";
inline constexpr char kCompletions[] = "/v1/completions";

// The header of Open Inference requests that says where the body's JSON ends.
inline constexpr char kJsonLength[] = "Inference-Header-Content-Length";

// models/NAME or models/NAME/versions/VERSION; what follows is left in `rest`.
struct ModelPath {
  std::string model;
  std::string version;
  std::vector<std::string> rest;
};

// Of the pieces between a path's slashes, at least three: "v1", "models", ...
ModelPath SplitModelPath(const std::vector<std::string>& pieces);

// The call that a path stands for: /v1/models/...:VERB, /v2/models/.../infer, transcriptions;
// completions are Decode calls;
// kHttpOther for others.
serving::Method MethodOf(const std::string& path);

// Unescape: percent-encoding (RFC 3986, 2.1) of paths and queries.

// Writes `text` to `out` with each "%20" as the byte that it stands for. False if a '%' has no two
// hexadecimal digits behind it, and for "%00": a NUL ends a name for some readers and not for
// others.
bool Unescape(absl::string_view text, std::string& out);

// Bodies of type multipart/form-data (RFC 7578 and RFC 2046, 5.1.1), as programs and browsers send
// files. The reader is strict: what a sender never writes is refused, not guessed at.

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

#endif  // BEAMWRIGHT_SERVER_HTTP_REQUEST_PARTS_H_
