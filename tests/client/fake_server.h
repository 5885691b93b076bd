// A server of the three services on a real socket, whose answers a test scripts.
#ifndef BEAMWRIGHT_TESTS_CLIENT_FAKE_SERVER_H_
#define BEAMWRIGHT_TESTS_CLIENT_FAKE_SERVER_H_

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace beamwright::client {

using DecodeHandler = std::function<grpc::Status(grpc::ServerContext&, const v1::DecodeRequest&,
                                                 v1::DecodeResponse&)>;

// One hypothesis of text <source text in upper case>, or of the ids of the source. A source
// "bad..." gets InvalidArgument as its own error.
v1::Result EchoResult(const v1::Source& source);

// What a real server ends a call with, none of whose sources has an answer: the status of the
// first, and all errors in its details.
grpc::Status StatusOfSources(const std::vector<google::rpc::Status>& errors);

// EchoResult for every source, as model "echo", version "7". Fails as a real server does if none
// has an answer.
grpc::Status EchoAll(grpc::ServerContext& context, const v1::DecodeRequest& request,
                     v1::DecodeResponse& response);

// Listens on 127.0.0.1 from construction to destruction. Decode calls run on separate threads,
// so a handler may block. Serves models "echo" 7 (ready) and "broken" 1 (not ready); health knows
// "" and "beamwright.v1.DecodeService".
// Score takes a source that is not "bad..." for scored.
class FakeServer {
 public:
  explicit FakeServer(DecodeHandler handler = EchoAll);
  ~FakeServer();

  const std::string& address() const { return address_; }

  // All decode requests that came in so far, in the order in which they came.
  std::vector<v1::DecodeRequest> requests();
  // Number of sources in them.
  int num_sources();

  void set_serving(bool serving);

  // Blocks until this many decode requests have come in.
  void WaitForRequests(size_t count);

 private:
  class DecodeServiceImpl;
  class ModelServiceImpl;
  class HealthServiceImpl;

  DecodeHandler handler_;
  std::string address_;
  absl::Mutex mutex_;
  std::vector<v1::DecodeRequest> requests_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = true;
  std::unique_ptr<DecodeServiceImpl> decode_;
  std::unique_ptr<ModelServiceImpl> models_;
  std::unique_ptr<HealthServiceImpl> health_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_TESTS_CLIENT_FAKE_SERVER_H_
