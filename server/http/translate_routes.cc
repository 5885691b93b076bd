#include "server/http/translate_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/http/paths.h"
#include "server/http/replies.h"
#include "server/http/translate_json.h"

namespace beamwright::http {
namespace {

constexpr char kTranslate[] = "/translate";
constexpr char kLanguages[] = "/languages";
constexpr char kSettings[] = "/frontend/settings";
constexpr char kHealth[] = "/health";

absl::StatusOr<TranslateBody> ReadBody(const HttpRequest& request) {
  BW_ASSIGN_OR_RETURN(google::protobuf::Struct members,
                      ParseMembers(request.header("Content-Type"), request.body));
  return ReadTranslateBody(std::move(members));
}

HttpReply TextReply(std::string body) {
  HttpReply reply;
  reply.body = std::move(body);
  return reply;
}

HttpReply LibreErrorReply(const absl::Status& status) {
  HttpReply reply = V2ErrorReply(status);
  if (reply.status == 401) {
    reply.status = 403;
    reply.headers.clear();
  }
  return reply;
}

}  // namespace

bool TranslateRoutes::Knows(const std::string& path) {
  return path == kTranslate || path == kLanguages || path == kSettings || path == kHealth;
}

HttpReply TranslateRoutes::Refuse(const HttpRequest& request, const absl::Status& why) const {
  serving::Caller caller{MethodOf(request.path)};
  caller.context = ContextOf(request);
  core_.calls().Refuse(why, caller);
  return LibreErrorReply(why);
}

absl::StatusOr<access::Identity> TranslateRoutes::AdmitByKey(const HttpRequest& request) const {
  std::string authorization = request.header(access::kAuthorizationHeader);
  if (authorization.empty() && access_.guarded()) {
    const auto members = ParseMembers(request.header("Content-Type"), request.body);
    const std::string key = members.ok() ? TextMember(*members, "api_key") : "";
    authorization = key.empty() ? "" : absl::StrCat("Bearer ", key);
  }
  return Admit(access_, request, authorization);
}

HttpReply TranslateRoutes::Handle(const HttpRequest& request) const {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const bool is_post = request.method == "POST";
  const char* const allowed = request.path == kTranslate   ? "POST"
                              : request.path == kLanguages ? "GET, POST"
                                                           : "GET";
  if (request.path == kTranslate ? !is_post : !is_get && !(is_post && request.path == kLanguages)) {
    Refuse(request, WrongMethod(allowed));
    return WrongMethodReply(request.path, allowed);
  }
  if (request.path == kSettings) {
    return Settings();
  }
  if (request.path == kHealth) {
    const absl::Status status = core_.state().CheckAccepting();
    return status.ok() ? TextReply("{\"status\":\"ok\"}\n") : LibreErrorReply(status);
  }
  const absl::StatusOr<access::Identity> identity = AdmitByKey(request);
  if (!identity.ok()) {
    return Refuse(request, identity.status());
  }
  if (const absl::Status loaded = core_.state().CheckLoaded(); !loaded.ok()) {
    return Refuse(request, loaded);
  }
  return request.path == kLanguages ? TextReply(WriteLanguages(translator_->Languages()))
                                    : Translate(request, *identity);
}

HttpReply TranslateRoutes::Settings() const {
  JsonWriter json;
  json.BeginObject();
  json.Key("apiKeys").Bool(access_.guarded());
  json.Key("keyRequired").Bool(access_.guarded());
  json.Key("charLimit").Int(translate::kMaxCharacters);
  json.Key("frontendTimeout").Int(500);  // milliseconds between a key and a request
  json.Key("suggestions").Bool(false);
  json.Key("filesTranslation").Bool(false);
  json.Key("supportedFilesFormat").BeginArray().EndArray();
  json.Key("language").BeginObject();
  const std::vector<translate::Language> languages = translator_->Languages();
  for (const char* side : {"source", "target"}) {
    json.Key(side).BeginObject();
    if (!languages.empty()) {
      const std::string& code =
          languages[side == absl::string_view("source") ? 0 : languages.size() - 1].code;
      json.Key("code").String(code);
      json.Key("name").String(translate::LanguageName(code));
    }
    json.EndObject();
  }
  json.EndObject().EndObject();
  return JsonReply(json);
}

HttpReply TranslateRoutes::Translate(const HttpRequest& request,
                                     const access::Identity& identity) const {
  absl::StatusOr<TranslateBody> body = ReadBody(request);
  absl::StatusOr<v1::TranslateRequest> asked(v1::TranslateRequest{});
  const auto kept = std::make_shared<TranslateBody>();  // what the answer's form depends on
  if (body.ok()) {
    asked = std::move(body->request);
    kept->is_list = body->is_list;
    kept->request.set_alternatives(asked->alternatives());
  } else {
    asked = body.status();
  }
  return AnswerLater<v1::TranslateResponse>(
      request, core_.state(), {serving::Method::kHttpTranslate, identity, timeout_},
      [&](const serving::Caller& caller, translate::TranslateDone done) {
        translator_->Translate(std::move(asked), caller, std::move(done));
      },
      [kept](const absl::StatusOr<v1::TranslateResponse>& answer) {
        return answer.ok() ? TextReply(WriteTranslateBody(*kept, *answer))
                           : LibreErrorReply(InMembers(answer.status(), kept->is_list));
      });
}

}  // namespace beamwright::http
