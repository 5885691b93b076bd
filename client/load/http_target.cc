// JSON over HTTP: our /v1 and the Open Inference Protocol's /v2. HTTP/1.1 has one call a connection
// at a time, so each call in flight has a connection and a thread; threads are started as they are
// needed and keep their connections.
//
// 1. Send puts a call into the queue; a thread is added if none is idle (Work).
// 2. Call writes the body in the form of the protocol (BodyOf) and waits for the answer. AnswerOf
//    reads it; other statuses than 200 become the status codes of gRPC (CodeOf, ErrorOf).
// 3. CancelOutstanding closes the connections of calls in flight, since HTTP/1.1 has no other way
//    to give up a call.
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <algorithm>
#include <deque>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/channels.h"
#include "client/load/infer_message.h"
#include "client/load/load.h"
#include "ops/base/rapidjson.h"
#include "ops/base/status.h"

namespace beamwright::client {

// Takes "http://host:port", "https://host:port" and "host:port"; a scheme or a certificate decides
// on TLS. The address and the files are checked as a gRPC client's are.
absl::StatusOr<HttpAddress> HttpAddressOf(const ClientOptions& options) {
  absl::string_view address = options.address;
  ClientOptions plain = options;
  SecurityOptions& security = plain.security;
  security.tls = security.tls || !security.ca_file.empty() || !security.cert_file.empty();
  if (absl::ConsumePrefix(&address, "https://")) {
    security.tls = true;
  } else {
    absl::ConsumePrefix(&address, "http://");
  }
  absl::ConsumeSuffix(&address, "/");
  if (!security.server_name.empty()) {
    return Invalid("over HTTP the certificate must have the host's name; leave out the other one");
  }
  plain.address = std::string(address);
  if (WithDefaultPort(address) != address) {
    absl::StrAppend(&plain.address, ":8000");
  }
  // For its checks of the address and the files; nothing is connected.
  BW_RETURN_IF_ERROR(MakeChannels(plain).status());
  HttpAddress found;
  BW_ASSIGN_OR_RETURN(found.authorization, ReadAuthorization(plain));
  found.url = absl::StrCat(security.tls ? "https://" : "http://", plain.address);
  found.security = security;
  return found;
}

namespace {

using absl::StatusCode;

constexpr char kJsonType[] = "application/json";

// Of HTTP's statuses, as docs/operations.md lists them; of other servers' the nearest.
StatusCode CodeOf(int http) {
  switch (http) {
    case 400:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 408:
    case 504:
      return StatusCode::kDeadlineExceeded;
    case 429:
      return StatusCode::kResourceExhausted;
    case 501:
      return StatusCode::kUnimplemented;
    case 503:
      return StatusCode::kUnavailable;
    default:
      return http < 500 ? StatusCode::kInvalidArgument : StatusCode::kInternal;
  }
}

// {"error": {"code": 3, "message": "..."}} of /v1, {"error": "..."} of /v2, or any other text.
absl::Status ErrorOf(int http, const std::string& body) {
  rapidjson::Document json;
  json.Parse(body.data(), body.size());
  StatusCode code = CodeOf(http);
  std::string message = body.substr(0, 200);
  if (!json.HasParseError() && json.IsObject() && json.HasMember("error")) {
    const rapidjson::Value& error = json["error"];
    if (error.IsString()) {
      message = error.GetString();
    } else if (error.IsObject()) {
      const auto number = error.FindMember("code");
      if (number != error.MemberEnd() && number->value.IsInt() && number->value.GetInt() > 0 &&
          number->value.GetInt() <= static_cast<int>(StatusCode::kUnauthenticated)) {
        code = static_cast<StatusCode>(number->value.GetInt());
      }
      const auto text = error.FindMember("message");
      message = text != error.MemberEnd() && text->value.IsString() ? text->value.GetString() : "";
    }
  }
  return absl::Status(code, absl::StrCat("HTTP ", http, ": ", message));
}

absl::StatusOr<v1::DecodeResponse> AnswerOf(Protocol protocol, const httplib::Response& response) {
  if (response.status != 200) {
    return ErrorOf(response.status, response.body);
  }
  if (protocol == Protocol::kInferHttp) {
    return DecodeResponseOf(absl::string_view(response.body));
  }
  v1::DecodeResponse answer;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer server
  if (const auto read = JsonStringToMessage(response.body, &answer, options); !read.ok()) {
    return absl::InternalError("the answer is not a DecodeResponse in JSON");
  }
  return answer;
}

class HttpTarget final : public LoadTarget {
 public:
  HttpTarget(Protocol protocol, HttpAddress address)
      : protocol_(protocol), address_(std::move(address)) {}

  ~HttpTarget() override {
    CancelOutstanding();
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void Send(LoadCall call, LoadDone done) override {
    absl::MutexLock lock(&mutex_);
    tasks_.emplace_back(std::move(call), std::move(done));
    if (num_idle_ < static_cast<int>(tasks_.size()) &&
        static_cast<int>(threads_.size()) < most_in_flight()) {
      threads_.emplace_back([this] { Work(); });
    }
  }

  void CancelOutstanding() override {
    absl::MutexLock lock(&mutex_);
    ++num_cancels_;
    for (httplib::Client* connection : busy_) {
      connection->stop();
    }
  }

  int most_in_flight() const override { return kMaxHttpConcurrency; }

 private:
  using Task = std::pair<LoadCall, LoadDone>;

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ || !tasks_.empty(); }

  // A thread with its connection: takes calls until the target ends. A call that failed while
  // CancelOutstanding closed connections counts as cancelled, not as broken.
  void Work() {
    const SecurityOptions& security = address_.security;
    httplib::Client connection(address_.url, security.cert_file, security.key_file);
    if (!security.ca_file.empty()) {
      connection.set_ca_cert_path(security.ca_file);
    }
    connection.set_keep_alive(true);
    connection.set_tcp_nodelay(true);
    while (true) {
      Task task;
      int cancels = 0;
      {
        absl::MutexLock lock(&mutex_);
        ++num_idle_;
        mutex_.Await(absl::Condition(this, &HttpTarget::HasWork));
        --num_idle_;
        if (tasks_.empty()) {
          return;
        }
        task = std::move(tasks_.front());
        tasks_.pop_front();
        busy_.insert(&connection);
        cancels = num_cancels_;
      }
      absl::StatusOr<v1::DecodeResponse> answer = Call(connection, task.first);
      {
        absl::MutexLock lock(&mutex_);
        busy_.erase(&connection);
        if (!answer.ok() && num_cancels_ != cancels) {
          answer = absl::CancelledError("the call was cancelled");
        }
      }
      task.second(std::move(answer));
    }
  }

  // The deadline goes to the library as three timeouts, none of which bounds the whole call; so the
  // clock decides afterwards which end it was.
  absl::StatusOr<v1::DecodeResponse> Call(httplib::Client& connection, const LoadCall& call) const {
    BW_ASSIGN_OR_RETURN(const std::string body, BodyOf(call));
    httplib::Headers headers;
    if (!address_.authorization.empty()) {
      headers.emplace("Authorization", address_.authorization);
    }
    if (!call.settings.tenant.empty()) {
      headers.emplace("beamwright-tenant", call.settings.tenant);
    }
    if (call.settings.priority != 0) {
      headers.emplace("beamwright-priority", absl::StrCat(call.settings.priority));
    }
    // HTTP/1.1 gives up a call by closing its connection, as the library does when time is up.
    const absl::Duration patience = std::min(call.settings.cancel_after, call.timeout);
    const int64_t us = std::max<int64_t>(1, absl::ToInt64Microseconds(patience));
    connection.set_connection_timeout(us / 1'000'000, us % 1'000'000);
    connection.set_read_timeout(us / 1'000'000, us % 1'000'000);
    connection.set_write_timeout(us / 1'000'000, us % 1'000'000);
    const absl::Time begin = absl::Now();
    const httplib::Result result = connection.Post(PathOf(call), headers, body, kJsonType);
    if (result) {
      return AnswerOf(protocol_, *result);
    }
    const std::string why = httplib::to_string(result.error());
    // A time-out and a connection that broke differ by the clock alone.
    if (absl::Now() - begin < patience) {
      return absl::UnavailableError(result.error() == httplib::Error::Connection
                                        ? absl::StrCat("Failed to connect to remote host: ", why)
                                        : absl::StrCat("the connection ended: ", why));
    }
    return call.settings.cancel_after < call.timeout
               ? absl::CancelledError("the call was given up")
               : absl::DeadlineExceededError(absl::StrCat("no answer: ", why));
  }

  absl::StatusOr<std::string> BodyOf(const LoadCall& call) const {
    if (protocol_ == Protocol::kInferHttp) {
      if (call.infer != nullptr) {
        return InferJson(*call.infer);
      }
      BW_ASSIGN_OR_RETURN(const inference::ModelInferRequest infer, InferRequestOf(call.request));
      return InferJson(infer);
    }
    v1::DecodeRequest request = call.request;
    request.clear_model();  // the path says them
    request.clear_version();
    std::string body;
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    if (const auto status = MessageToJsonString(request, &body, options); !status.ok()) {
      return Invalid("the request cannot be written in JSON: ", std::string(status.message()));
    }
    return body;
  }

  std::string PathOf(const LoadCall& call) const {
    const std::string& version = call.request.version();
    return absl::StrCat(protocol_ == Protocol::kRest ? "/v1" : "/v2", "/models/",
                        call.request.model(), version.empty() ? "" : "/versions/", version,
                        protocol_ == Protocol::kRest ? ":decode" : "/infer");
  }

  const Protocol protocol_;
  const HttpAddress address_;
  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::set<httplib::Client*> busy_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_cancels_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // added to with the lock, joined without it
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeHttpTarget(Protocol protocol,
                                                           const ClientOptions& options) {
  BW_ASSIGN_OR_RETURN(HttpAddress address, HttpAddressOf(options));
  return std::make_unique<HttpTarget>(protocol, std::move(address));
}

}  // namespace beamwright::client
