// Answers packed with Brotli or gzip for clients that take it (RFC 9110, 12.5.3). Private to
// server/http/.
#ifndef BEAMWRIGHT_SERVER_HTTP_COMPRESSION_H_
#define BEAMWRIGHT_SERVER_HTTP_COMPRESSION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/http/listener.h"

namespace beamwright::http {

// Packs the body of `reply` and says so in its headers, if `accepts`, the header Accept-Encoding,
// names a way that is known and the body is of a type that packs well.
void Compress(absl::string_view accepts, HttpReply& reply);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_COMPRESSION_H_
