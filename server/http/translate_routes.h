// TranslateRoutes: the paths of LibreTranslate's API (/translate, /translate_file, /detect,
// /languages, /frontend/settings, /health) and of DeepL's (/v2/translate, /v2/languages,
// /v2/usage), as their clients know them (docs/translation.md). A key is a token of the server.
#ifndef BEAMWRIGHT_SERVER_HTTP_TRANSLATE_ROUTES_H_
#define BEAMWRIGHT_SERVER_HTTP_TRANSLATE_ROUTES_H_

#include <google/protobuf/struct.pb.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/access.h"
#include "server/http/listener.h"
#include "server/serving/core.h"
#include "server/translate/translate.h"

namespace beamwright::http {

// Thread-safe. Access and core must outlive it.
class TranslateRoutes {
 public:
  // timeout: of a call.
  TranslateRoutes(const access::Access& access, serving::Core& core, absl::Duration timeout)
      : access_(access),
        core_(core),
        timeout_(timeout),
        translator_(std::make_unique<translate::Translator>(core)) {}

  static bool Knows(const std::string& path);

  // Of a path that it knows. Errors are {"error": "..."}, of DeepL's paths {"message": "..."}, with
  // their HTTP statuses: 403 for a missing or wrong key.
  HttpReply Handle(const HttpRequest& request) const;

 private:
  HttpReply Translate(const HttpRequest& request, const access::Identity& identity,
                      absl::StatusOr<google::protobuf::Struct> members) const;
  HttpReply Detect(const HttpRequest& request,
                   const absl::StatusOr<google::protobuf::Struct>& members) const;
  HttpReply HandleDeepL(const HttpRequest& request, const access::Identity& identity,
                        const absl::StatusOr<google::protobuf::Struct>& members) const;
  HttpReply Settings() const;
  HttpReply Refuse(const HttpRequest& request, const absl::Status& why) const;
  // Who asks: by the header Authorization, else by the member api_key or auth_key of the body.
  // Where it reads the body, `members` are those of the body.
  absl::StatusOr<access::Identity> AdmitByKey(
      const HttpRequest& request,
      std::optional<absl::StatusOr<google::protobuf::Struct>>& members) const;

  const access::Access& access_;
  serving::Core& core_;
  const absl::Duration timeout_;
  const std::unique_ptr<translate::Translator> translator_;
  mutable std::atomic<int64_t> num_characters_{0};  // of calls of /v2/translate
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TRANSLATE_ROUTES_H_
