#include "server/http/page.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace beamwright::http {
namespace {

constexpr char kFolder[] = "/page/";

// Nothing from elsewhere, nothing inline, no frame around it: what a name or an answer holds can't
// become a script even where the page's own code is wrong.
std::string Policy(int websocket_port) {
  const std::string streams =
      websocket_port == 0 ? ""
                          : absl::StrCat(" ws://*:", websocket_port, " wss://*:", websocket_port);
  return absl::StrCat(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
      "'self'",
      streams, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

const char* TypeOf(absl::string_view name) {
  return absl::EndsWith(name, ".html")  ? "text/html; charset=utf-8"
         : absl::EndsWith(name, ".css") ? "text/css; charset=utf-8"
         : absl::EndsWith(name, ".svg") ? "image/svg+xml"
                                        : "text/javascript; charset=utf-8";
}

}  // namespace

const PageFile* FindPageFile(const std::string& path) {
  absl::string_view name = path;
  if (path == "/") {
    name = "index.html";
  } else if (!absl::ConsumePrefix(&name, kFolder)) {
    return nullptr;
  }
  for (const PageFile& file : PageFiles()) {
    if (file.name == name) {
      return &file;
    }
  }
  return nullptr;
}

HttpReply PageReply(const HttpRequest& request, const PageFile& file, PagePorts ports) {
  const std::string tag = absl::StrCat("\"", file.hash, "\"");
  HttpReply reply;
  reply.content_type = TypeOf(file.name);
  reply.headers = {{"Content-Security-Policy", Policy(ports.websocket)},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   // Asked for again each time: a new server has a new page.
                   {"Cache-Control", "no-cache"},
                   {"ETag", tag}};
  if (ports.grpc > 0) {
    reply.headers.emplace_back("Beamwright-GRPC-Port", absl::StrCat(ports.grpc));
  }
  if (ports.websocket > 0) {
    reply.headers.emplace_back("Beamwright-WebSocket-Port", absl::StrCat(ports.websocket));
  }
  if (absl::StrContains(request.header("If-None-Match"), tag)) {
    reply.status = 304;
    return reply;
  }
  reply.body = std::string(file.content);
  return reply;
}

}  // namespace beamwright::http
