// Rest: the HTTP API, of three families: /v1 mirrors beamwright.v1 in protobuf's JSON form, /v2 is
// the Open Inference Protocol, and LibreTranslate's paths translate. docs/client.md lists the
// paths.
#ifndef BEAMWRIGHT_SERVER_HTTP_REST_H_
#define BEAMWRIGHT_SERVER_HTTP_REST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/access/access.h"
#include "server/http/listener.h"
#include "server/http/page.h"
#include "server/http/probes.h"
#include "server/http/translate_routes.h"
#include "server/oip/service.h"

namespace beamwright::http {

struct RestOptions {
  // For requests that name no time limit.
  absl::Duration timeout = absl::Seconds(60);
  bool page = false;  // "/" is the page for browsers
  PagePorts ports;
};

// Thread-safe. Access, service and probes must outlive it.
class Rest {
 public:
  Rest(const RestOptions& options, const access::Access& access, oip::Service& service,
       const Probes& probes)
      : options_(options),
        access_(access),
        service_(service),
        probes_(probes),
        translation_(access, service.core(), options.timeout) {}

  // Waits for the answer where the request asks for decoding.
  HttpReply Handle(const HttpRequest& request) const;
  // Counts and logs a request that was refused before it came here, as a call like any other.
  void CountRefusal(const HttpRequest& request, const absl::Status& why) const;

 private:
  using Pieces = std::vector<std::string>;  // of the path, between its slashes

  using Identity = access::Identity;

  // Counted as well.
  HttpReply NoSuchPath(const HttpRequest& request) const;
  HttpReply WrongMethod(const HttpRequest& request, const char* allowed) const;
  // What all callers get alike: the page and the API's description.
  HttpReply HandleFile(const HttpRequest& request) const;
  HttpReply HandleV1(const HttpRequest& request, const Pieces& pieces,
                     const Identity& identity) const;
  HttpReply HandleV2(const HttpRequest& request, const Pieces& pieces,
                     const Identity& identity) const;
  HttpReply Decode(const HttpRequest& request, const std::string& model, const std::string& version,
                   const Identity& identity) const;
  HttpReply Infer(const HttpRequest& request, const std::string& model, const std::string& version,
                  const Identity& identity) const;
  HttpReply StreamDecode(const HttpRequest& request, const std::string& model,
                         const std::string& version, const Identity& identity) const;
  HttpReply Score(const HttpRequest& request, const std::string& model, const std::string& version,
                  const Identity& identity) const;
  HttpReply Align(const HttpRequest& request, const std::string& model, const std::string& version,
                  const Identity& identity) const;
  HttpReply Logging(const HttpRequest& request) const;
  HttpReply Control(const HttpRequest& request, const Pieces& pieces) const;
  HttpReply ModelCall(const HttpRequest& request, const Pieces& pieces,
                      const Identity& identity) const;
  // What service_.Answer says of a model, once it is in memory.
  template <typename Response, typename Request>
  HttpReply TellOfModel(const HttpRequest& request, const Identity& identity, const Request& asked,
                        HttpReply (*write)(const Response&)) const;
  template <typename Response, typename Request>
  HttpReply Tell(const Request& request) const;

  const RestOptions options_;
  const access::Access& access_;
  oip::Service& service_;
  const Probes& probes_;
  const TranslateRoutes translation_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REST_H_
