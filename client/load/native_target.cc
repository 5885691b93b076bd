// beamwright.v1 over gRPC: unary calls and streams.
#include <utility>

#include "absl/time/clock.h"
#include "client/load/load.h"
#include "client/load/target.h"

namespace beamwright::client {
namespace {

class NativeTarget final : public LoadTarget {
 public:
  explicit NativeTarget(Client& client) : client_(client) {}
  explicit NativeTarget(std::unique_ptr<Client> client)
      : owned_(std::move(client)), client_(*owned_) {}

  void Send(LoadCall call, LoadDone done) override {
    const absl::Time deadline = absl::Now() + call.timeout;
    if (!call.stream) {
      client_.DecodeAsync(std::move(call.request), deadline, std::move(done), call.settings);
      return;
    }
    v1::StreamDecodeRequest request;
    request.set_model(call.request.model());
    request.set_version(call.request.version());
    *request.mutable_options() = std::move(*call.request.mutable_options());
    *request.mutable_source() = std::move(*call.request.mutable_sources(0));
    struct Answer {
      bool has_token = false;
      v1::DecodeResponse response;
    };
    auto answer = std::make_shared<Answer>();
    client_.StreamDecodeAsync(
        std::move(request), deadline,
        [answer, on_first = std::move(call.on_first)](const v1::StreamDecodeResponse& message) {
          if (!answer->has_token && message.stable_size() > 0) {
            answer->has_token = true;
            on_first();
          }
          if (message.has_decoded()) {
            *answer->response.add_results()->mutable_decoded() = message.decoded();
          }
          return true;
        },
        [answer, done = std::move(done)](const absl::Status& status) {
          done(status.ok() ? absl::StatusOr<v1::DecodeResponse>(std::move(answer->response))
                           : status);
        },
        call.settings);
  }

  void CancelOutstanding() override { client_.CancelOutstanding(); }
  int most_in_flight() const override { return kMaxConcurrency; }
  bool SetLoop(bool has_loop) override {
    loop_ = has_loop ? std::make_unique<CallbackLoop>(client_) : nullptr;
    return true;
  }
  bool RunOne(absl::Time deadline) override { return loop_ && loop_->RunOne(deadline); }

 private:
  std::unique_ptr<Client> owned_;
  Client& client_;
  std::unique_ptr<CallbackLoop> loop_;
};

}  // namespace

std::unique_ptr<LoadTarget> MakeNativeTarget(Client& client) {
  return std::make_unique<NativeTarget>(client);
}

std::unique_ptr<LoadTarget> MakeOwnedNativeTarget(std::unique_ptr<Client> client) {
  return std::make_unique<NativeTarget>(std::move(client));
}

}  // namespace beamwright::client
