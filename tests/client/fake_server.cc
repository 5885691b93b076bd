#include "tests/client/fake_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/source_errors.pb.h"
#include "ops/base/check.h"

namespace beamwright::client {

v1::Result EchoResult(const v1::Source& source) {
  v1::Result result;
  if (absl::StartsWith(source.text(), "bad")) {
    result.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
    result.mutable_error()->set_message(absl::StrCat("cannot decode ", source.text()));
    return result;
  }
  v1::Hypothesis* hypothesis = result.mutable_decoded()->add_hypotheses();
  *hypothesis->mutable_tokens() = source.ids().ids();
  hypothesis->set_text(absl::AsciiStrToUpper(source.text()));
  hypothesis->set_log_prob(-1.5);
  hypothesis->set_score(-0.75);
  hypothesis->set_finish_reason(v1::FINISH_REASON_EOS);
  return result;
}

grpc::Status StatusOfSources(const std::vector<google::rpc::Status>& errors) {
  v1::SourceErrors all;
  for (size_t i = 0; i < errors.size(); ++i) {
    v1::SourceError& error = *all.add_errors();
    if (errors.size() > 1) {
      *error.mutable_error() = errors[i];
    }
    v1::SourceRange& range = *error.add_sources();
    range.set_first(static_cast<int>(i));
    range.set_count(1);
    v1::CodeCount& count = *all.add_counts();  // of one code several times: they add up
    count.set_code(errors[i].code());
    count.set_sources(1);
  }
  google::rpc::Status call = errors.at(0);
  call.add_details()->PackFrom(all);
  return {static_cast<grpc::StatusCode>(call.code()), call.message(), call.SerializeAsString()};
}

grpc::Status EchoAll(grpc::ServerContext&, const v1::DecodeRequest& request,
                     v1::DecodeResponse& response) {
  std::vector<google::rpc::Status> errors;
  for (const v1::Source& source : request.sources()) {
    v1::Result& result = *response.add_results() = EchoResult(source);
    if (result.has_error()) {
      errors.push_back(result.error());
    }
  }
  response.set_model("echo");
  response.set_version("7");
  response.set_numerics("fake-f32");
  return static_cast<int>(errors.size()) == request.sources_size() ? StatusOfSources(errors)
                                                                   : grpc::Status::OK;
}

class FakeServer::DecodeServiceImpl : public v1::DecodeService::Service {
 public:
  explicit DecodeServiceImpl(FakeServer& server) : server_(server) {}

  grpc::Status Decode(grpc::ServerContext* context, const v1::DecodeRequest* request,
                      v1::DecodeResponse* response) override {
    {
      absl::MutexLock lock(&server_.mutex_);
      server_.requests_.push_back(*request);
    }
    return server_.handler_(*context, *request, *response);
  }

  // What the handler says of the source: a message without news, one with a stable token, the
  // answer.
  grpc::Status StreamDecode(grpc::ServerContext* context, const v1::StreamDecodeRequest* request,
                            grpc::ServerWriter<v1::StreamDecodeResponse>* writer) override {
    v1::DecodeRequest plain;
    *plain.add_sources() = request->source();
    *plain.mutable_options() = request->options();
    v1::DecodeResponse answer;
    const grpc::Status status = Decode(context, &plain, &answer);
    if (!status.ok()) {
      return status;
    }
    v1::StreamDecodeResponse message;
    message.mutable_provisional();
    writer->Write(message);
    message.Clear();
    message.add_stable()->add_tokens(1);
    writer->Write(message);
    message.Clear();
    *message.mutable_decoded() = answer.results(0).decoded();
    writer->Write(message);
    return grpc::Status::OK;
  }

  grpc::Status Score(grpc::ServerContext*, const v1::ScoreRequest* request,
                     v1::ScoreResponse* response) override {
    std::vector<google::rpc::Status> errors;
    for (const v1::ScoreSource& source : request->sources()) {
      const v1::Result echo = EchoResult(source.source());
      v1::ScoreResult& result = *response->add_results();
      if (echo.has_error()) {
        *result.mutable_error() = echo.error();
        errors.push_back(echo.error());
      } else {
        result.mutable_scored()->add_targets()->set_perplexity(2);
      }
    }
    return static_cast<int>(errors.size()) == request->sources_size() ? StatusOfSources(errors)
                                                                      : grpc::Status::OK;
  }

 private:
  FakeServer& server_;
};

class FakeServer::ModelServiceImpl : public v1::ModelService::Service {
 public:
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    v1::ModelSummary* echo = response->add_models();
    echo->set_name("echo");
    echo->set_version("7");
    echo->set_description("Says it again, louder");
    echo->set_ready(true);
    v1::ModelSummary* broken = response->add_models();
    broken->set_name("broken");
    broken->set_version("1");
    broken->set_reason("its graph is empty");
    v1::ModelSummary* idle = response->add_models();
    idle->set_name("idle");
    idle->set_version("2");
    idle->set_ready(true);
    idle->set_not_in_memory(true);
    idle->set_reason("unused for an hour");
    v1::ModelSummary* kept = response->add_models();
    kept->set_name("kept");
    kept->set_version("3");
    kept->set_ready(true);
    kept->set_reason("its new graph is empty");
    return grpc::Status::OK;
  }

  grpc::Status DescribeModel(grpc::ServerContext*, const v1::DescribeModelRequest* request,
                             v1::ModelDescription* response) override {
    if (request->model() != "echo" || (request->version() != "" && request->version() != "7")) {
      return {grpc::StatusCode::NOT_FOUND,
              absl::StrCat("there is no model ", request->model(), " ", request->version())};
    }
    response->mutable_summary()->set_name("echo");
    response->mutable_summary()->set_version("7");
    response->mutable_summary()->set_ready(true);
    v1::ModelConfig& config = *response->mutable_config();
    config.mutable_encoder()->set_graph("encoder.xml");
    config.mutable_transducer();
    v1::ScorerConfig& scorer = *config.add_scorers();
    scorer.set_name("news");
    scorer.mutable_ngram()->set_file("news.arpa");
    response->set_source_vocabulary_size(12345);
    v1::TensorDescription* memory = response->add_memory();
    memory->set_name("keys");
    memory->set_dtype("f32");
    memory->add_shape(-1);
    memory->add_shape(64);
    return grpc::Status::OK;
  }
};

class FakeServer::HealthServiceImpl : public grpc::health::v1::Health::Service {
 public:
  explicit HealthServiceImpl(FakeServer& server) : server_(server) {}

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override {
    if (request->service() != "" && request->service() != "beamwright.v1.DecodeService") {
      return {grpc::StatusCode::NOT_FOUND, "unknown service"};
    }
    absl::MutexLock lock(&server_.mutex_);
    response->set_status(server_.serving_ ? grpc::health::v1::HealthCheckResponse::SERVING
                                          : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  }

 private:
  FakeServer& server_;
};

FakeServer::FakeServer(DecodeHandler handler)
    : handler_(std::move(handler)),
      decode_(std::make_unique<DecodeServiceImpl>(*this)),
      models_(std::make_unique<ModelServiceImpl>()),
      health_(std::make_unique<HealthServiceImpl>(*this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(decode_.get());
  builder.RegisterService(models_.get());
  builder.RegisterService(health_.get());
  server_ = builder.BuildAndStart();
  BW_CHECK(server_ != nullptr && port != 0);
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<v1::DecodeRequest> FakeServer::requests() {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

int FakeServer::num_sources() {
  int count = 0;
  for (const v1::DecodeRequest& request : requests()) {
    count += request.sources_size();
  }
  return count;
}

void FakeServer::set_serving(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
}

void FakeServer::WaitForRequests(size_t count) {
  const auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return requests_.size() >= count; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&reached));
}

}  // namespace beamwright::client
