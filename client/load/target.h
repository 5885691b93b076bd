// What a load is sent to: a server of one protocol. The load generator knows calls and answers; how
// they travel is decided here, so that one generator measures this server and others alike.
#ifndef BEAMWRIGHT_CLIENT_LOAD_TARGET_H_
#define BEAMWRIGHT_CLIENT_LOAD_TARGET_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "include/beamwright/client.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::client {

enum class Protocol {
  kNative,     // beamwright.v1 over gRPC
  kRest,       // the same as JSON over HTTP
  kInferGrpc,  // Open Inference Protocol over gRPC
  kInferHttp,  // the same as JSON over HTTP
};

struct LoadCall {
  v1::DecodeRequest request;
  // In the place of the request's sources and options, for the Open Inference Protocol. May be
  // null; must outlive the call otherwise.
  const inference::ModelInferRequest* infer = nullptr;
  // As a stream of one source; `on_first` is then called when the first token has come that can no
  // longer change.
  bool stream = false;
  std::function<void()> on_first;
  absl::Duration timeout;
  CallSettings settings;
};

// Called once for each call, on any thread; it may send further calls, and must not block.
using LoadDone = std::function<void(absl::StatusOr<v1::DecodeResponse>)>;

// Thread-safe. Destructors cancel what is outstanding and wait for it.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;

  virtual void Send(LoadCall call, LoadDone done) = 0;
  virtual void CancelOutstanding() = 0;
  // Most calls that can be in flight.
  virtual int most_in_flight() const = 0;

  // As AsyncCalls has them (client/async_calls.h), where calls are on a queue. False: they are not.
  virtual bool SetLoop(bool /*has_loop*/) { return false; }
  virtual bool RunOne(absl::Time /*deadline*/) { return false; }
};

// The client must outlive the target.
std::unique_ptr<LoadTarget> MakeNativeTarget(Client& client);

// Connects to options.address by the protocol. Errors are Client::Connect's; InvalidArgument as
// well for TLS over HTTP, which is not there. Streams are for kNative alone.
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeTarget(Protocol protocol,
                                                       const ClientOptions& options);

// The protocols of target.h, one by one.

std::unique_ptr<LoadTarget> MakeOwnedNativeTarget(std::unique_ptr<Client> client);
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeInferGrpcTarget(const ClientOptions& options);
// `protocol`: kRest or kInferHttp.
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeHttpTarget(Protocol protocol,
                                                           const ClientOptions& options);

// Where an HTTP server is, out of the same options that name a gRPC one.

struct HttpAddress {
  std::string url;  // "http://host:port"
  SecurityOptions security;
  std::string authorization;  // empty: none
};

// "host", "host:port" (8000 without one), or either after http:// or https://. InvalidArgument as
// Client::Connect's, and for a name of the certificate, which HTTP takes from the host.
absl::StatusOr<HttpAddress> HttpAddressOf(const ClientOptions& options);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_TARGET_H_
