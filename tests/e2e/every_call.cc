#include "tests/e2e/every_call.h"

#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "beamwright/v1/source_errors.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using google::protobuf::Message;

Told FromStatus(const google::rpc::Status& status) {
  Told told{status.code(), 0, "", status.message()};
  for (const google::protobuf::Any& detail : status.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == "beamwright") {
      told.reason = info.reason();
    }
    told.has_source_errors = told.has_source_errors || detail.Is<v1::SourceErrors>();
  }
  return told;
}

Told FromStatus(const grpc::Status& status, const grpc::ClientContext& context) {
  google::rpc::Status whole;
  whole.ParseFromString(status.error_details());
  whole.set_code(status.error_code());
  whole.set_message(status.error_message());
  Told told = FromStatus(whole);
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find("grpc-retry-pushback-ms"); found != trailers.end()) {
    told.wait.assign(found->second.data(), found->second.size());
  }
  return told;
}

template <typename Response>
Told FromResponse(const grpc::Status& status, const grpc::ClientContext& context,
                  const Response& response) {
  for (const auto& result : response.results()) {
    if (status.ok() && result.has_error()) {
      Told told = FromStatus(result.error());
      told.in_result = true;
      return told;
    }
  }
  return FromStatus(status, context);
}

// The context of a call, and who asks.
class CallContext {
 public:
  explicit CallContext(const Question& question) : question_(question) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + question.timeout));
    if (question.before != nullptr) {
      question.before(context_);
    }
    if (!question.token.empty()) {
      context_.AddMetadata("authorization", "Bearer " + question.token);
    }
  }
  ~CallContext() {
    if (question_.after != nullptr) {
      question_.after();
    }
  }
  CallContext(const CallContext&) = delete;
  grpc::ClientContext* get() { return &context_; }

 private:
  const Question& question_;
  grpc::ClientContext context_;
};

v1::DecodeRequest DecodeOf(const Question& question) {
  v1::DecodeRequest request;
  request.set_model(question.model);
  request.set_version(question.version);
  for (int i = 0; i < question.num_sources; ++i) {
    request.add_sources()->set_text(question.text);
  }
  if (question.beam_size > 0) {
    request.mutable_options()->set_beam_size(question.beam_size);
    request.mutable_options()->set_n_best(1);
  }
  return request;
}

v1::StreamDecodeRequest StreamOf(const Question& question) {
  const v1::DecodeRequest decode = DecodeOf(question);
  v1::StreamDecodeRequest request;
  request.set_model(decode.model());
  request.set_version(decode.version());
  *request.mutable_options() = decode.options();
  if (question.num_sources > 0) {
    request.mutable_source()->set_text(question.text);
  }
  return request;
}

v1::ScoreRequest ScoreOf(const Question& question) {
  v1::ScoreRequest request;
  request.set_model(question.model);
  request.set_version(question.version);
  for (int i = 0; i < question.num_sources; ++i) {
    auto& source = *request.add_sources();
    source.mutable_source()->set_text(question.text);
    source.add_targets()->set_text("K AE1 T");
  }
  return request;
}

v1::AlignRequest AlignOf(const Question& question) {
  v1::AlignRequest request;
  request.set_model(question.model);
  request.set_version(question.version);
  for (int i = 0; i < question.num_sources; ++i) {
    v1::AlignPair& pair = *request.add_pairs();
    pair.mutable_source()->set_text(question.text);
    pair.mutable_target()->set_text("K AE1 T");
  }
  return request;
}

inference::ModelInferRequest InferOf(const Question& question) {
  inference::ModelInferRequest request;
  request.set_model_name(question.model);
  request.set_model_version(question.version);
  auto& input = *request.add_inputs();
  input.set_name("source_text");
  input.set_datatype("BYTES");
  input.add_shape(question.num_sources);
  input.add_shape(1);
  for (int i = 0; i < question.num_sources; ++i) {
    input.mutable_contents()->add_bytes_contents(question.text);
  }
  if (question.beam_size > 0) {
    (*request.mutable_parameters())["beam_size"].set_int64_param(question.beam_size);
    (*request.mutable_parameters())["n_best"].set_int64_param(1);
  }
  return request;
}

Told Decode(ServerProcess& server, const Question& question) {
  CallContext context(question);
  v1::DecodeResponse response;
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  const grpc::Status status = stub->Decode(context.get(), DecodeOf(question), &response);
  return FromResponse(status, *context.get(), response);
}

Told StreamDecode(ServerProcess& server, const Question& question) {
  CallContext context(question);
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  const auto reader = stub->StreamDecode(context.get(), StreamOf(question));
  v1::StreamDecodeResponse message;
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  return FromStatus(status, *context.get());
}

Told Score(ServerProcess& server, const Question& question) {
  CallContext context(question);
  v1::ScoreResponse response;
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  const grpc::Status status = stub->Score(context.get(), ScoreOf(question), &response);
  return FromResponse(status, *context.get(), response);
}

Told Align(ServerProcess& server, const Question& question) {
  CallContext context(question);
  v1::AlignResponse response;
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  const grpc::Status status = stub->Align(context.get(), AlignOf(question), &response);
  return FromResponse(status, *context.get(), response);
}

Told ModelInfer(ServerProcess& server, const Question& question) {
  CallContext context(question);
  inference::ModelInferResponse response;
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(server.address()));
  const grpc::Status status = stub->ModelInfer(context.get(), InferOf(question), &response);
  return FromStatus(status, *context.get());
}

// With the metadata that makes errors statuses.
Told ModelStreamInfer(ServerProcess& server, const Question& question) {
  CallContext context(question);
  context.get()->AddMetadata("triton_grpc_error", "true");
  const auto stub = inference::GRPCInferenceService::NewStub(Connect(server.address()));
  const auto stream = stub->ModelStreamInfer(context.get());
  stream->Write(InferOf(question));
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  while (stream->Read(&response)) {
  }
  const grpc::Status status = stream->Finish();
  return FromStatus(status, *context.get());
}

// The word behind `key` in JSON.
std::string WordIn(const std::string& json, const std::string& key) {
  size_t at = json.find(key);
  if (at == std::string::npos) {
    return "";
  }
  at += key.size();
  return json.substr(at, json.find_first_of("\",}", at) - at);
}

Told Post(ServerProcess& server, const Question& question, const std::string& path,
          const std::string& body) {
  httplib::Client http("127.0.0.1", server.http_port());
  http.set_read_timeout(absl::ToChronoMilliseconds(question.timeout + question.patience));
  const httplib::Headers headers =
      question.token.empty() ? httplib::Headers()
                             : httplib::Headers{{"Authorization", "Bearer " + question.token}};
  const auto reply = http.Post(path, headers, body, "application/json");
  if (!reply) {
    return {-1, 0, "", "no answer"};
  }
  Told told{0, reply->status, WordIn(reply->body, "\"reason\":\""), reply->body};
  // In /v1 errors have their code; in /v2 the HTTP status is all there is.
  const std::string code = WordIn(reply->body, "\"code\":");
  told.code = code.empty() ? 0 : std::atoi(code.c_str());
  told.in_result = reply->status == 200 && told.code != 0;
  told.has_source_errors = reply->body.find("beamwright.v1.SourceErrors") != std::string::npos;
  told.wait = reply->get_header_value("Retry-After");
  return told;
}

std::string Json(const Message& message) {
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &json).ok());
  return json;
}

template <typename Request>
Told PostV1(ServerProcess& server, const Question& question, const std::string& call,
            Request request) {
  request.clear_model();
  request.clear_version();
  const std::string version =
      question.version.empty() ? "" : absl::StrCat("/versions/", question.version);
  return Post(server, question, absl::StrCat("/v1/models/", question.model, version, ":", call),
              Json(request));
}

Told HttpDecode(ServerProcess& server, const Question& question) {
  return PostV1(server, question, "decode", DecodeOf(question));
}
Told HttpStreamDecode(ServerProcess& server, const Question& question) {
  return PostV1(server, question, "streamDecode", StreamOf(question));
}
Told HttpScore(ServerProcess& server, const Question& question) {
  return PostV1(server, question, "score", ScoreOf(question));
}

Told HttpAlign(ServerProcess& server, const Question& question) {
  return PostV1(server, question, "align", AlignOf(question));
}

Told HttpInfer(ServerProcess& server, const Question& question) {
  std::string body = "{";
  if (question.beam_size > 0) {
    absl::StrAppend(&body, R"("parameters":{"n_best":1,"beam_size":)", question.beam_size, "},");
  }
  absl::StrAppend(&body, R"("inputs":[{"name":"source_text","datatype":"BYTES","shape":[)",
                  question.num_sources, R"(,1],"data":[)");
  for (int i = 0; i < question.num_sources; ++i) {
    absl::StrAppend(&body, i == 0 ? "\"" : ",\"", question.text, "\"");
  }
  const std::string version =
      question.version.empty() ? "" : absl::StrCat("/versions/", question.version);
  return Post(server, question, absl::StrCat("/v2/models/", question.model, version, "/infer"),
              body + "]}]}");
}

}  // namespace

const std::vector<EveryCall>& EveryCalls() {
  // name, HTTP, many sources, beam, all or nothing, pushback
  static const auto* const calls = new std::vector<EveryCall>{
      {"Decode", false, true, true, false, true, Decode},
      {"StreamDecode", false, false, true, false, true, StreamDecode},
      {"Score", false, true, false, false, true, Score},
      {"Align", false, true, false, false, true, Align},
      {"ModelInfer", false, true, true, true, true, ModelInfer},
      {"ModelStreamInfer", false, true, true, true, false, ModelStreamInfer},
      {"POST :decode", true, true, true, false, true, HttpDecode},
      {"POST :streamDecode", true, false, true, false, true, HttpStreamDecode},
      {"POST :score", true, true, false, false, true, HttpScore},
      {"POST :align", true, true, false, false, true, HttpAlign},
      {"POST /infer", true, true, true, true, true, HttpInfer},
  };
  return *calls;
}

}  // namespace beamwright::e2e
