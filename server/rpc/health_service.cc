// gRPC's health protocol: Check answers with the status of a name at once, Watch sends it now and
// whenever it changes.
//
// HealthCall is one call of either. The service's lock guards the calls' state, so that Set, which
// goes over the watches of a name, and gRPC's events do not meet. A call has one write in progress
// at most: of changes that come during it, only the last is sent, after it (next_, sent_).
//
// The call deletes itself in OnDone, which gRPC calls once, last; there it also leaves the watches.
#include "ops/base/status.h"
#include "server/rpc/call_counts.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/services.h"

namespace beamwright::rpc {
namespace {

using Response = grpc::health::v1::HealthCheckResponse;

// Longest name, with what is around it.
constexpr int64_t kMaxRequestBytes = 4096;

}  // namespace

// A call of Check or Watch. gRPC owns it: it deletes itself when gRPC is done. The service's lock
// guards what it sends.
class HealthCall final : public RawReactor, private IncomingCall {
 public:
  HealthCall(const Gate& gate, HealthService& service, grpc::CallbackServerContext& context,
             bool is_watch)
      : gate_(gate), service_(service), context_(context), is_watch_(is_watch) {}

  void Begin(const GuardedMethod& method) {
    const absl::Status status = gate_.Admit(context_, method).status();
    if (!status.ok()) {
      Refuse(status);
      return;
    }
    gate_.Expect(*this);
    StartRead(&request_);
  }

  // The status that its name has now. Of a watch, which sends it once it has sent the one before.
  // With the service's lock: clang cannot see that the service and its calls mean the same one.
  void Send(HealthService::Status status) {
    service_.mutex_.AssertHeld();
    next_ = status;
    if (is_ended_ || is_writing_ || next_ == sent_) {
      return;
    }
    sent_ = next_;
    Response response;
    response.set_status(sent_);
    if (SerializeReply(response, reply_).ok()) {
      is_writing_ = true;
      StartWrite(&reply_);
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!gate_.Arrived(*this, ok)) {
      return;
    }
    gate_.CountArrival(context_, request_);
    const auto request =
        ParseRequest<grpc::health::v1::HealthCheckRequest>(request_, kMaxRequestBytes);
    request_.Clear();
    if (!request.ok()) {
      Refuse(request.status());
      return;
    }
    absl::MutexLock lock(&service_.mutex_);
    const HealthService::Status status = service_.Find(request->service());
    if (is_watch_) {
      name_ = request->service();
      service_.watches_[name_].insert(this);
      Send(status);
    } else {
      Answer(status);
    }
  }

  void Answer(HealthService::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_.mutex_) {
    Response response;
    response.set_status(status);
    if (status == Response::SERVICE_UNKNOWN) {
      End(grpc::Status(grpc::StatusCode::NOT_FOUND, "service name unknown"));
    } else if (!is_ended_ && SerializeReply(response, reply_).ok()) {
      is_ended_ = true;
      StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
    }
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&service_.mutex_);
    is_writing_ = false;
    if (ok) {
      Send(next_);
    } else {
      End(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override {
    absl::MutexLock lock(&service_.mutex_);
    // A call whose request has not come ends in OnReadDone.
    if (sent_ != Response::UNKNOWN) {
      End(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override {
    {
      absl::MutexLock lock(&service_.mutex_);
      const auto watches = service_.watches_.find(name_);
      if (watches != service_.watches_.end() && watches->second.erase(this) > 0 &&
          watches->second.empty()) {
        service_.watches_.erase(watches);
      }
    }
    delete this;
  }

  void Refuse(const absl::Status& status) override {
    gate_.CountRefusal(context_, status);
    absl::MutexLock lock(&service_.mutex_);
    End(ToGrpcStatus(status));
  }

  void End(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_.mutex_) {
    if (!is_ended_) {
      is_ended_ = true;
      Finish(status);
    }
  }

  const Gate& gate_;
  HealthService& service_;
  grpc::CallbackServerContext& context_;
  const bool is_watch_;
  std::string name_;  // of a watch
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  HealthService::Status sent_ ABSL_GUARDED_BY(service_.mutex_) = Response::UNKNOWN;  // not yet
  HealthService::Status next_ ABSL_GUARDED_BY(service_.mutex_) = Response::UNKNOWN;
  bool is_writing_ ABSL_GUARDED_BY(service_.mutex_) = false;
  bool is_ended_ ABSL_GUARDED_BY(service_.mutex_) = false;
};

HealthService::HealthService(const Gate& gate) {
  for (const bool is_watch : {false, true}) {
    Serve(
        is_watch ? "Watch" : "Check",
        [this, &gate, is_watch](const GuardedMethod& method, grpc::CallbackServerContext& context) {
          auto* call = new HealthCall(gate, *this, context, is_watch);
          call->Begin(method);
          return call;
        });
  }
}

void HealthService::Set(const std::string& name, bool is_serving) {
  absl::MutexLock lock(&mutex_);
  const Status status = is_serving ? Response::SERVING : Response::NOT_SERVING;
  statuses_[name] = status;
  if (const auto watches = watches_.find(name); watches != watches_.end()) {
    for (HealthCall* call : watches->second) {
      call->Send(status);
    }
  }
}

HealthService::Status HealthService::Find(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? Response::SERVICE_UNKNOWN : found->second;
}

}  // namespace beamwright::rpc
