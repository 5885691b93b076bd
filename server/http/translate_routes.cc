// The paths of LibreTranslate (/translate, /translate_file, /detect, /languages,
// /frontend/settings) and of DeepL (/v2/translate, /v2/languages, /v2/usage), so that programs
// written for these services can call this server. Both are forms of the same TranslateRequest.
//
// 1. Handle finds the route and checks its method. Settings and health need no credentials.
// 2. AdmitByKey: keys come as a bearer token, as "DeepL-Auth-Key KEY", or in the body (api_key,
//    auth_key), which is therefore read here, but only if no header has the key.
// 3. Translate and HandleDeepL read the body into a TranslateRequest and answer when the translator
//    calls back (AnswerLater). What the form of the answer depends on is kept apart, since the
//    request moves into the translator.
// 4. Errors have each service's form (LibreErrorReply, DeepLErrorReply) and name the member of its
//    body, not the field of our message (InMembers, InDeepLMembers).
#include "server/http/translate_routes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/http/replies.h"
#include "server/http/request_parts.h"
#include "server/http/translate_json.h"
#include "server/translate/directions.h"

namespace beamwright::http {
namespace {

using google::protobuf::Struct;

constexpr char kSettings[] = "/frontend/settings";
constexpr char kHealth[] = "/health";
constexpr char kGetOrPost[] = "GET, POST";

struct Route {
  const char* path;
  const char* methods;
};
constexpr Route kRoutes[] = {{"/translate", "POST"},    {"/translate_file", "POST"},
                             {"/detect", "POST"},       {"/languages", kGetOrPost},
                             {kSettings, "GET"},        {kHealth, "GET"},
                             {"/v2/translate", "POST"}, {"/v2/languages", kGetOrPost},
                             {"/v2/usage", kGetOrPost}};

const Route* FindRoute(const std::string& path) {
  const auto* const found = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                         [&](const Route& route) { return path == route.path; });
  return found == std::end(kRoutes) ? nullptr : found;
}

bool IsDeepL(const HttpRequest& request) { return absl::StartsWith(request.path, "/v2/"); }

absl::StatusOr<Struct> MembersOf(const HttpRequest& request) {
  return ParseMembers(request.header("Content-Type"), request.body);
}

HttpReply TextReply(std::string body) {
  HttpReply reply;
  reply.body = std::move(body);
  return reply;
}

}  // namespace

bool TranslateRoutes::Knows(const std::string& path) { return FindRoute(path) != nullptr; }

HttpReply TranslateRoutes::Refuse(const HttpRequest& request, const absl::Status& why) const {
  serving::Caller caller{MethodOf(request.path)};
  caller.context = ContextOf(request);
  core_.calls().Refuse(why, caller);
  return IsDeepL(request) ? DeepLErrorReply(why) : LibreErrorReply(why);
}

absl::StatusOr<access::Identity> TranslateRoutes::AdmitByKey(
    const HttpRequest& request, std::optional<absl::StatusOr<Struct>>& members) const {
  constexpr absl::string_view kDeepLKey = "DeepL-Auth-Key ";
  std::string authorization = request.header(access::kAuthorizationHeader);
  if (absl::StartsWith(authorization, kDeepLKey)) {
    authorization = absl::StrCat("Bearer ", authorization.substr(kDeepLKey.size()));
  }
  if (authorization.empty() && access_.guarded()) {
    members = MembersOf(request);
    const std::string key =
        members->ok() ? TextMember(**members, IsDeepL(request) ? "auth_key" : "api_key") : "";
    authorization = key.empty() ? "" : absl::StrCat("Bearer ", key);
  }
  return Admit(access_, request, authorization);
}

HttpReply TranslateRoutes::Handle(const HttpRequest& request) const {
  const char* const allowed = FindRoute(request.path)->methods;
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (!absl::StrContains(allowed, is_get ? "GET" : request.method)) {
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
  std::optional<absl::StatusOr<Struct>> members;  // read once: bodies may be large
  const absl::StatusOr<access::Identity> identity = AdmitByKey(request, members);
  if (!identity.ok()) {
    return Refuse(request, identity.status());
  }
  if (const absl::Status loaded = core_.state().CheckLoaded(); !loaded.ok()) {
    return Refuse(request, loaded);
  }
  if (request.path == "/languages") {
    return TextReply(WriteLanguages(translator_->Languages()));
  }
  if (!members.has_value()) {
    members = MembersOf(request);
  }
  if (IsDeepL(request)) {
    return HandleDeepL(request, *identity, *members);
  }
  return request.path == "/detect" ? Detect(request, *members)
                                   : Translate(request, *identity, *std::move(members));
}

HttpReply TranslateRoutes::Detect(const HttpRequest& request,
                                  const absl::StatusOr<Struct>& members) const {
  if (!members.ok()) {
    return Refuse(request, members.status());
  }
  google::protobuf::RepeatedPtrField<std::string> texts;
  ReadStrings(*members, "q", texts);
  if (texts.empty()) {
    return Refuse(request, status::InvalidField("q", "is not set; it is the text"));
  }
  auto detected = translator_->Detect(absl::StrJoin(texts, "\n"));
  if (!detected.ok()) {
    return Refuse(request, detected.status());
  }
  const std::vector<translate::Language> served = translator_->Languages();
  if (detected->empty() && !served.empty()) {  // as LibreTranslate has it: one, with confidence 0
    const bool has_english =
        std::any_of(served.begin(), served.end(),
                    [](const translate::Language& language) { return language.code == "en"; });
    detected->push_back({has_english ? "en" : served[0].code, 0});
  }
  return TextReply(WriteDetected(*detected));
}

HttpReply TranslateRoutes::HandleDeepL(const HttpRequest& request, const access::Identity& identity,
                                       const absl::StatusOr<Struct>& members) const {
  if (request.path == "/v2/languages") {
    return members.ok() ? TextReply(WriteDeepLLanguages(translator_->Languages(),
                                                        TextMember(*members, "type")))
                        : Refuse(request, members.status());
  }
  if (request.path == "/v2/usage") {
    constexpr int64_t kNoLimit = 1'000'000'000'000;  // as DeepL writes it
    JsonWriter json;
    json.BeginObject();
    json.Key("character_count").Int(num_characters_.load());
    json.Key("character_limit").Int(kNoLimit);
    json.EndObject();
    return JsonReply(json);
  }
  absl::StatusOr<v1::TranslateRequest> asked =
      members.ok() ? ReadDeepLBody(*members)
                   : absl::StatusOr<v1::TranslateRequest>(members.status());
  std::vector<int64_t> counts;
  for (int i = 0; asked.ok() && i < asked->texts_size(); ++i) {
    counts.push_back(CountCharacters(asked->texts(i)));
    num_characters_ += counts.back();
  }
  return AnswerLater<v1::TranslateResponse>(
      request, core_.state(), {serving::Method::kHttpTranslate, identity, timeout_},
      [&](const serving::Caller& caller, translate::TranslateDone done) {
        translator_->Translate(std::move(asked), caller, std::move(done));
      },
      [counts](const absl::StatusOr<v1::TranslateResponse>& answer) {
        return answer.ok() ? TextReply(WriteDeepLBody(counts, *answer))
                           : DeepLErrorReply(InDeepLMembers(answer.status()));
      });
}

HttpReply TranslateRoutes::Settings() const {
  JsonWriter json;
  json.BeginObject();
  json.Key("apiKeys").Bool(access_.guarded());
  json.Key("keyRequired").Bool(access_.guarded());
  json.Key("charLimit").Int(translate::kMaxCharacters);
  json.Key("frontendTimeout").Int(500);  // milliseconds between a key and a request
  json.Key("suggestions").Bool(false);
  json.Key("filesTranslation").Bool(true);
  json.Key("supportedFilesFormat").BeginArray();
  for (const char* ending : {".txt", ".html", ".xml", ".srt", ".vtt", ".po", ".docx", ".odt"}) {
    json.String(ending);
  }
  json.EndArray();
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

HttpReply TranslateRoutes::Translate(const HttpRequest& request, const access::Identity& identity,
                                     absl::StatusOr<Struct> members) const {
  const bool is_file = request.path == "/translate_file";
  absl::StatusOr<TranslateBody> body = !members.ok()
                                           ? absl::StatusOr<TranslateBody>(members.status())
                                       : is_file ? ReadFileBody(*std::move(members))
                                                 : ReadTranslateBody(*std::move(members));
  absl::StatusOr<v1::TranslateRequest> asked(v1::TranslateRequest{});
  const auto kept = std::make_shared<TranslateBody>();  // what the answer's form depends on
  if (body.ok()) {
    asked = std::move(body->request);
    kept->is_list = body->is_list;
    kept->request.set_alternatives(asked->alternatives());
    kept->request.set_format(asked->format());
  } else {
    asked = body.status();
  }
  return AnswerLater<v1::TranslateResponse>(
      request, core_.state(), {serving::Method::kHttpTranslate, identity, timeout_},
      [&](const serving::Caller& caller, translate::TranslateDone done) {
        translator_->Translate(std::move(asked), caller, std::move(done));
      },
      [kept, is_file](const absl::StatusOr<v1::TranslateResponse>& answer) {
        if (!answer.ok()) {
          return LibreErrorReply(InMembers(answer.status(), is_file ? "file" : "q", kept->is_list));
        }
        return TextReply(is_file ? WriteFileBody(*kept, *answer)
                                 : WriteTranslateBody(*kept, *answer));
      });
}

}  // namespace beamwright::http
