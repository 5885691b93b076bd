// The page: what a browser shows of the server at "/". Its files stand in server/http/page and are
// part of the program (cmake/embed.cmake). It asks the API of the same listener and nothing else.
#ifndef BEAMWRIGHT_SERVER_HTTP_PAGE_H_
#define BEAMWRIGHT_SERVER_HTTP_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/http/listener.h"

namespace beamwright::http {

struct PageFile {
  absl::string_view name;  // "decode.js"
  absl::string_view hash;  // of the content
  absl::string_view content;
};

// Generated.
absl::Span<const PageFile> PageFiles();

// The file that a path stands for: index.html for "/", else "/page/NAME". Null if unknown.
const PageFile* FindPageFile(const std::string& path);

// Ports of other listeners that the page names or calls; 0: there is none. Headers of the reply
// have them: Beamwright-GRPC-Port, Beamwright-WebSocket-Port.
struct PagePorts {
  int grpc = 0;
  int websocket = 0;  // where the page sends sound
};

// Answers GET and HEAD: the file, or 304 to a client that has it already.
HttpReply PageReply(const HttpRequest& request, const PageFile& file, PagePorts ports = {});

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PAGE_H_
