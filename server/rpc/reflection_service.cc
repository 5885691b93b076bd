#include "server/rpc/reflection_service.h"

#include "ops/base/status.h"
#include "server/rpc/raw_message.h"
#include "server/rpc/rpc_status.h"

namespace beamwright::rpc {
namespace {

// Longest names, with what is around them; an answer repeats its request.
constexpr size_t kMaxReflectionBytes = 4096;

// A call: reads a request when the answer to the one before is sent, so it holds one of each. gRPC
// owns it: it deletes itself when gRPC is done.
class ReflectionCall final : public RawReactor {
 public:
  ReflectionCall(const Gate& gate, const ReflectionAnswers& answers,
                 grpc::CallbackServerContext& context)
      : gate_(gate), answers_(answers), context_(context) {}

  void Begin(const GuardedMethod& method) {
    const absl::Status status = gate_.Admit(context_, method).status();
    if (status.ok()) {
      Read();
    } else {
      End(status);
    }
  }

  void OnReadDone(bool ok) override {
    --gate_.num_reading();
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    gate_.CountArrival(context_, request_);
    if (request_.Length() > kMaxReflectionBytes) {
      End(Invalid("a request for reflection has ", request_.Length(), " bytes; at most ",
                  kMaxReflectionBytes, " are allowed"));
      return;
    }
    const auto request = ParseRequest<grpc::reflection::v1::ServerReflectionRequest>(
        request_, static_cast<int64_t>(kMaxReflectionBytes));
    absl::Status status = request.status();
    if (status.ok()) {
      status = SerializeReply(answers_.Answer(*request), reply_);
    }
    if (status.ok()) {
      StartWrite(&reply_);
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Read();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

 private:
  void Read() {
    ++gate_.num_reading();
    StartRead(&request_);
  }

  void End(const absl::Status& status) {
    gate_.CountRefusal(context_, status);
    Finish(ToGrpcStatus(status));
  }

  const Gate& gate_;
  const ReflectionAnswers& answers_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

}  // namespace

template <typename Generated>
ReflectionService<Generated>::ReflectionService(const Gate& gate,
                                                const ReflectionAnswers& answers) {
  this->Serve("ServerReflectionInfo",
              [&gate, &answers](const GuardedMethod& method, grpc::CallbackServerContext& context) {
                auto* call = new ReflectionCall(gate, answers, context);
                call->Begin(method);
                return call;
              });
}

template class ReflectionService<grpc::reflection::v1::ServerReflection>;
template class ReflectionService<grpc::reflection::v1alpha::ServerReflection>;

}  // namespace beamwright::rpc
