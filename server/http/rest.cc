// The way of a request, from Rest::Handle: probes and the paths for translation, which decide on
// access themselves, go first. All else is admitted (Admit: token and role by path), refused while
// models are loading, and split at its slashes:
//
//   /v1      HandleV1: status, transcriptions, completions, models; NAME:VERB is a call (kCalls)
//   /v2      HandleV2: the Open Inference Protocol: repository, logging, ModelCall, health
//   others   HandleFile: the page and /openapi.json
//
// Calls that the engine answers return at once with a reply that comes later (AnswerLater), so no
// thread waits. Every refusal is counted before it is answered (CountRefusal).
#include "server/http/rest.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/http/event_queue.h"
#include "server/http/message_json.h"
#include "server/http/page.h"
#include "server/http/replies.h"
#include "server/http/request_parts.h"
#include "server/http/routes.h"
#include "server/http/transcription.h"
#include "server/serving/decode.h"

namespace beamwright::http {
namespace {

bool IsGet(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// For those who look at the status alone.
HttpReply HealthReply(HttpReply reply, bool good) {
  reply.status = good ? 200 : 503;
  return reply;
}

// A name in the body has to be that of the path.
absl::Status TakeName(const char* field, const std::string& from_path, std::string& name) {
  if (!name.empty() && name != from_path) {
    return status::InvalidField(field, "is '", name, "' in the body and '", from_path,
                                "' in the path");
  }
  name = from_path;
  return absl::OkStatus();
}

// The request of a call on a model of the path.
template <typename Request>
absl::StatusOr<Request> ParseBody(const std::string& body, const std::string& model,
                                  const std::string& version) {
  Request request;
  BW_RETURN_IF_ERROR(ReadRequest(body, request));
  BW_RETURN_IF_ERROR(TakeName("model", model, *request.mutable_model()));
  if (!version.empty()) {
    BW_RETURN_IF_ERROR(TakeName("version", version, *request.mutable_version()));
  }
  return request;
}

template <typename Message>
HttpReply MessageOrError(const absl::StatusOr<Message>& answer) {
  return answer.ok() ? MessageReply(*answer) : ErrorReply(answer.status());
}

// The members that OpenAI's clients read of a model.
JsonWriter& WriteModelMembers(const std::string& name, JsonWriter& json) {
  json.Key("id").String(name).Key("object").String("model");
  return json.Key("created").Int(0).Key("owned_by").String("beamwright");
}

// The message with further members behind its own. members: an object.
HttpReply WithMembers(const google::protobuf::Message& message, const JsonWriter& members) {
  HttpReply reply = MessageReply(message);
  if (reply.status == 200) {
    const absl::string_view own = absl::StripSuffix(reply.body, "}\n");
    reply.body = absl::StrCat(own, ",", absl::string_view(members.text()).substr(1), "\n");
  }
  return reply;
}

HttpReply ListReply(const v1::ListModelsResponse& list) {
  JsonWriter json;
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  const std::string* last = nullptr;  // versions of a model follow one another
  for (const v1::ModelSummary& model : list.models()) {
    if (last == nullptr || *last != model.name()) {
      WriteModelMembers(model.name(), json.BeginObject()).EndObject();
    }
    last = &model.name();
  }
  json.EndArray().EndObject();
  return WithMembers(list, json);
}

HttpReply DescriptionReply(const absl::StatusOr<v1::ModelDescription>& model) {
  if (!model.ok()) {
    return ErrorReply(model.status());
  }
  JsonWriter json;
  WriteModelMembers(model->summary().name(), json.BeginObject()).EndObject();
  return WithMembers(*model, json);
}

HttpReply InferReplyOf(const InferBody& asked,
                       const absl::StatusOr<inference::ModelInferResponse>& answer) {
  if (!answer.ok()) {
    return V2ErrorReply(answer.status());
  }
  InferReply written = WriteInferBody(asked, *answer);
  HttpReply reply;
  if (written.json_length < written.body.size()) {
    reply.content_type = "application/octet-stream";
    reply.headers.emplace_back(kJsonLength, absl::StrCat(written.json_length));
  }
  reply.body = std::move(written.body);
  return reply;
}

}  // namespace

void Rest::CountRefusal(const HttpRequest& request, const absl::Status& why) const {
  serving::Caller caller{MethodOf(request.path)};
  caller.context = ContextOf(request);
  service_.core().calls().Refuse(why, caller);
}

HttpReply Rest::NoSuchPath(const HttpRequest& request) const {
  const absl::Status why = status::WithReason(
      absl::NotFoundError(absl::StrCat("there is no path '", request.path,
                                       "'; docs/client.md lists those that are")),
      status::reason::kNoSuchPath);
  CountRefusal(request, why);
  return ErrorReplyFor(request.path, why);
}

HttpReply Rest::WrongMethod(const HttpRequest& request, const char* allowed) const {
  CountRefusal(request, http::WrongMethod(allowed));
  return WrongMethodReply(request.path, allowed);
}

HttpReply Rest::Handle(const HttpRequest& request) const {
  // "/v1/models/" is "/v1/models", for access as well.
  if (request.path.size() > 1 && absl::EndsWith(request.path, "/") &&
      !absl::EndsWith(request.path, "//")) {
    HttpRequest bare = request;
    bare.path.pop_back();
    return Handle(bare);
  }
  // /metrics is the other listener's.
  if (Probes::Knows(request.path) && request.path != "/metrics") {
    return probes_.Handle(request);
  }
  if (TranslateRoutes::Knows(request.path)) {
    return translation_.Handle(request);
  }
  const Pieces pieces = absl::StrSplit(absl::StripPrefix(request.path, "/"), '/');
  const absl::StatusOr<access::Identity> identity = Admit(access_, request);
  if (!identity.ok()) {
    CountRefusal(request, identity.status());
    return pieces[0] == "v2" ? V2ErrorReply(identity.status()) : ErrorReply(identity.status());
  }
  const absl::Status loaded = service_.core().state().CheckLoaded();
  if (!loaded.ok() && access::RolesForPath(request.method, request.path) != access::kOpen) {
    CountRefusal(request, loaded);
    return ErrorReplyFor(request.path, loaded);
  }
  if (pieces[0] == "v1") {
    return HandleV1(request, pieces, *identity);
  }
  return pieces[0] == "v2" ? HandleV2(request, pieces, *identity) : HandleFile(request);
}

HttpReply Rest::HandleFile(const HttpRequest& request) const {
  const bool is_openapi = request.path == "/openapi.json";
  const bool is_root = request.path == "/";
  const PageFile* file = options_.page ? FindPageFile(request.path) : nullptr;
  if (file == nullptr && !is_openapi && !is_root) {
    return NoSuchPath(request);
  }
  if (!IsGet(request)) {
    return WrongMethod(request, "GET");
  }
  if (file == nullptr && is_root) {  // where to go from here
    JsonWriter json;
    json.BeginObject().Key("description").String("/openapi.json");
    json.Key("models").String("/v1/models").Key("inference").String("/v2").EndObject();
    return JsonReply(json);
  }
  return is_openapi ? OpenApiReply() : PageReply(request, *file, options_.ports);
}

HttpReply Rest::HandleV1(const HttpRequest& request, const Pieces& pieces,
                         const Identity& identity) const {
  const serving::ModelRegistry& models = service_.core().models();
  if (pieces.size() == 2 && pieces[1] == "status") {
    return IsGet(request) ? StatusReply(service_.core().metrics()) : WrongMethod(request, "GET");
  }
  if (request.path == kTranscriptions) {
    return request.method == "POST"
               ? Transcribe(request, service_.core(),
                            {MethodOf(request.path), identity, options_.timeout})
               : WrongMethod(request, "POST");
  }
  if (request.path == kCompletions) {
    return request.method == "POST" ? Complete(request, service_.core(),
                                               {MethodOf(request.path), identity, options_.timeout})
                                    : WrongMethod(request, "POST");
  }
  if (pieces.size() < 2 || pieces[1] != "models") {
    return NoSuchPath(request);
  }
  if (pieces.size() == 2) {
    return IsGet(request) ? ListReply(models.ListAll()) : WrongMethod(request, "GET");
  }
  ModelPath path = SplitModelPath(pieces);
  if (!path.rest.empty()) {
    return NoSuchPath(request);
  }
  // NAME:VERB; a name may have colons, too.
  std::string& last = path.version.empty() ? path.model : path.version;
  using Call = HttpReply (Rest::*)(const HttpRequest&, const std::string&, const std::string&,
                                   const Identity&) const;
  constexpr std::pair<serving::Method, Call> kCalls[] = {
      {serving::Method::kHttpDecode, &Rest::Decode},
      {serving::Method::kHttpStreamDecode, &Rest::StreamDecode},
      {serving::Method::kHttpScore, &Rest::Score},
      {serving::Method::kHttpAlign, &Rest::Align}};
  for (const auto& [method, call] : kCalls) {
    if (MethodOf(request.path) == method) {
      last.resize(last.rfind(':'));
      return request.method == "POST" ? (this->*call)(request, path.model, path.version, identity)
                                      : WrongMethod(request, "POST");
    }
  }
  if (!IsGet(request)) {
    // NAME:VERB of a verb that there is not; models are only looked at.
    return absl::StrContains(last, ':') ? NoSuchPath(request) : WrongMethod(request, "GET");
  }
  if (!models.on_demand()) {
    return DescriptionReply(models.Describe(path.model, path.version));
  }
  return AnswerLater<v1::ModelDescription>(
      request, service_.core().state(), {MethodOf(request.path), identity, options_.timeout},
      [&](const serving::Caller& caller, const auto& done) {
        models.Await(path.model, path.version, caller.deadline,
                     [&models, path, done](const absl::Status& ready) {
                       if (ready.ok()) {
                         done(models.Describe(path.model, path.version));
                       } else {
                         done(ready);
                       }
                     });
      },
      DescriptionReply);
}

HttpReply Rest::Decode(const HttpRequest& request, const std::string& model,
                       const std::string& version, const Identity& identity) const {
  serving::Core& core = service_.core();
  return AnswerLater<v1::DecodeResponse>(
      request, core.state(), {serving::Method::kHttpDecode, identity, options_.timeout},
      [&](const serving::Caller& caller, serving::DecodeDone done) {
        serving::Decode(core, ParseBody<v1::DecodeRequest>(request.body, model, version), caller,
                        std::move(done));
      },
      MessageOrError<v1::DecodeResponse>);
}

HttpReply Rest::StreamDecode(const HttpRequest& request, const std::string& model,
                             const std::string& version, const Identity& identity) const {
  return StreamReply(request, service_.core(),
                     {serving::Method::kHttpStreamDecode, identity, options_.timeout},
                     ParseBody<v1::StreamDecodeRequest>(request.body, model, version));
}

HttpReply Rest::Score(const HttpRequest& request, const std::string& model,
                      const std::string& version, const Identity& identity) const {
  serving::Core& core = service_.core();
  return AnswerLater<v1::ScoreResponse>(
      request, core.state(), {serving::Method::kHttpScore, identity, options_.timeout},
      [&](const serving::Caller& caller, serving::ScoreDone done) {
        serving::Score(core, ParseBody<v1::ScoreRequest>(request.body, model, version), caller,
                       std::move(done));
      },
      MessageOrError<v1::ScoreResponse>);
}

HttpReply Rest::Align(const HttpRequest& request, const std::string& model,
                      const std::string& version, const Identity& identity) const {
  serving::Core& core = service_.core();
  return AnswerLater<v1::AlignResponse>(
      request, core.state(), {serving::Method::kHttpAlign, identity, options_.timeout},
      [&](const serving::Caller& caller, const serving::AlignDone& done) {
        serving::Align(core, ParseBody<v1::AlignRequest>(request.body, model, version), caller,
                       done);
      },
      MessageOrError<v1::AlignResponse>);
}

template <typename Response, typename Request>
HttpReply Rest::Tell(const Request& request) const {
  Response response;
  const absl::Status status = service_.Answer(request, response);
  return status.ok() ? V2Reply(response) : V2ErrorReply(status);
}

template <typename Response, typename Request>
HttpReply Rest::TellOfModel(const HttpRequest& request, const Identity& identity,
                            const Request& asked, HttpReply (*write)(const Response&)) const {
  if (!service_.core().models().on_demand()) {
    Response response;
    const absl::Status status = service_.Answer(asked, response);
    return status.ok() ? write(response) : V2ErrorReply(status);
  }
  return AnswerLater<Response>(
      request, service_.core().state(), {MethodOf(request.path), identity, options_.timeout},
      [&](const serving::Caller& caller, const auto& done) {
        service_.core().models().Await(asked.name(), asked.version(), caller.deadline,
                                       [this, asked, done](const absl::Status& ready) {
                                         Response response;
                                         const absl::Status status =
                                             ready.ok() ? service_.Answer(asked, response) : ready;
                                         if (status.ok()) {
                                           done(std::move(response));
                                         } else {
                                           done(status);
                                         }
                                       });
      },
      [write](const absl::StatusOr<Response>& response) {
        return response.ok() ? write(*response) : V2ErrorReply(response.status());
      });
}

HttpReply Rest::HandleV2(const HttpRequest& request, const Pieces& pieces,
                         const Identity& identity) const {
  if (pieces.size() == 3 && pieces[1] == "repository" && pieces[2] == "index") {
    if (request.method != "POST") {
      return WrongMethod(request, "POST");
    }
    const auto asked = ParseIndexBody(request.body);
    inference::RepositoryIndexResponse index;
    const absl::Status status = asked.ok() ? service_.Answer(*asked, index) : asked.status();
    if (!status.ok()) {
      return V2ErrorReply(status);
    }
    // A list, where gRPC has a message that holds one.
    JsonWriter json;
    json.BeginArray();
    for (const auto& model : index.models()) {
      WriteMessage(model, json);
    }
    json.EndArray();
    return JsonReply(json);
  }
  if (pieces.size() == 5 && pieces[1] == "repository" && pieces[2] == "models") {
    return Control(request, pieces);
  }
  if (pieces.size() == 2 && pieces[1] == "logging") {
    return Logging(request);
  }
  if (pieces.size() > 2 && pieces[1] == "models" && pieces[2] != "stats") {
    return ModelCall(request, pieces, identity);
  }
  if (!IsGet(request)) {
    return WrongMethod(request, "GET");
  }
  if (pieces.size() == 1) {
    return Tell<inference::ServerMetadataResponse>(inference::ServerMetadataRequest());
  }
  if (pieces.size() == 3 && pieces[1] == "models") {
    return Tell<inference::ModelStatisticsResponse>(inference::ModelStatisticsRequest());
  }
  if (pieces.size() == 3 && pieces[1] == "health" && pieces[2] == "live") {
    inference::ServerLiveResponse live;
    service_.Answer(inference::ServerLiveRequest(), live).IgnoreError();  // it has none
    return HealthReply(V2Reply(live), live.live());
  }
  if (pieces.size() == 3 && pieces[1] == "health" && pieces[2] == "ready") {
    inference::ServerReadyResponse ready;
    service_.Answer(inference::ServerReadyRequest(), ready).IgnoreError();  // it has none
    return HealthReply(V2Reply(ready), ready.ready());
  }
  return NoSuchPath(request);
}

HttpReply Rest::Logging(const HttpRequest& request) const {
  if (!IsGet(request) && request.method != "POST") {
    return WrongMethod(request, "GET, POST");
  }
  absl::StatusOr<inference::LogSettingsRequest> asked(inference::LogSettingsRequest{});
  if (request.method == "POST") {
    asked = ParseLogBody(request.body);
  }
  inference::LogSettingsResponse settings;
  const absl::Status status = asked.ok() ? service_.Answer(*asked, settings) : asked.status();
  return status.ok() ? HttpReply{200, "application/json", WriteLogBody(settings), {}}
                     : V2ErrorReply(status);
}

HttpReply Rest::Control(const HttpRequest& request, const Pieces& pieces) const {
  if (request.method != "POST") {
    return WrongMethod(request, "POST");
  }
  if (pieces[4] != "load" && pieces[4] != "unload") {
    return NoSuchPath(request);
  }
  absl::StatusOr<ControlParameters> parameters = ParseControlBody(request.body);
  if (!parameters.ok()) {
    return V2ErrorReply(parameters.status());
  }
  absl::Status result;
  absl::Notification done;
  const auto control = [&](auto asked) {
    asked.set_model_name(pieces[3]);
    *asked.mutable_parameters() = *std::move(parameters);
    service_.Control(asked, [&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
  };
  if (pieces[4] == "load") {
    control(inference::RepositoryModelLoadRequest());
  } else {
    control(inference::RepositoryModelUnloadRequest());
  }
  done.WaitForNotification();
  if (!result.ok()) {
    return V2ErrorReply(result);
  }
  HttpReply reply;
  reply.body = "{}\n";
  return reply;
}

HttpReply Rest::ModelCall(const HttpRequest& request, const Pieces& pieces,
                          const Identity& identity) const {
  const ModelPath path = SplitModelPath(pieces);
  const std::string call = path.rest.size() == 1 ? path.rest[0] : "";
  if (call == "infer") {
    return request.method == "POST" ? Infer(request, path.model, path.version, identity)
                                    : WrongMethod(request, "POST");
  }
  if (path.rest.size() > 1 ||
      (!call.empty() && call != "ready" && call != "config" && call != "stats")) {
    return NoSuchPath(request);
  }
  if (!IsGet(request)) {
    return WrongMethod(request, "GET");
  }
  const auto named = [&path](auto asked) {
    asked.set_name(path.model);
    asked.set_version(path.version);
    return asked;
  };
  if (call == "ready") {
    inference::ModelReadyResponse ready;
    const absl::Status status = service_.Answer(named(inference::ModelReadyRequest()), ready);
    return status.ok() ? HealthReply(V2Reply(ready), ready.ready()) : V2ErrorReply(status);
  }
  if (call == "config") {
    return TellOfModel<inference::ModelConfigResponse>(
        request, identity, named(inference::ModelConfigRequest()),
        [](const inference::ModelConfigResponse& config) { return V2Reply(config.config()); });
  }
  if (call == "stats") {
    return Tell<inference::ModelStatisticsResponse>(named(inference::ModelStatisticsRequest()));
  }
  return TellOfModel<inference::ModelMetadataResponse>(
      request, identity, named(inference::ModelMetadataRequest()),
      [](const inference::ModelMetadataResponse& metadata) { return V2Reply(metadata); });
}

HttpReply Rest::Infer(const HttpRequest& request, const std::string& model,
                      const std::string& version, const Identity& identity) const {
  absl::StatusOr<InferBody> body = ParseInferBody(request.body, request.header(kJsonLength));
  absl::StatusOr<inference::ModelInferRequest> asked(inference::ModelInferRequest{});
  const auto kept = std::make_shared<InferBody>();  // what the answer's form depends on
  if (body.ok()) {
    body->request.set_model_name(model);
    body->request.set_model_version(version);
    asked = std::move(body->request);
    *kept = *std::move(body);
  } else {
    asked = body.status();
  }
  return AnswerLater<inference::ModelInferResponse>(
      request, service_.core().state(), {serving::Method::kHttpInfer, identity, options_.timeout},
      [&](const serving::Caller& caller, oip::Service::Done done) {
        service_.Infer(asked, caller, std::move(done));
      },
      [kept](const absl::StatusOr<inference::ModelInferResponse>& answer) {
        return InferReplyOf(*kept, answer);
      });
}

}  // namespace beamwright::http
