// InferenceService: inference.GRPCInferenceService, the Open Inference Protocol over gRPC.
#ifndef BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
#define BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "inference/grpc_service.grpc.pb.h"
#include "inference/grpc_service.pb.h"
#include "server/access/access.h"
#include "server/oip/service.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"

namespace beamwright::rpc {

// InferenceStream: a ModelStreamInfer call. Requests of a stream are decoded side by side; each is
// answered by one message, in the order of the requests. An error is a message as well and the
// stream goes on, unless the client asked, by the metadata `triton_grpc_error: true`, that the
// first one end the stream with its status.

// More requests of a stream than this are not read before earlier ones are answered.
inline constexpr size_t kMaxOpenPerStream = 256;

class InferenceStream;

// The streams that are open, so that a server that stops can end them. Thread-safe.
class OpenStreams {
 public:
  void Add(InferenceStream* stream);
  void Remove(InferenceStream* stream);
  // Ends those that are open, and from now on those that come.
  void EndAll();

 private:
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<InferenceStream*> streams_ ABSL_GUARDED_BY(mutex_);
};

// gRPC owns it: it deletes itself when gRPC is done and its last request is answered.
class InferenceStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // An identity that is an error ends the stream with it.
  static InferenceStream* Start(const Gate& gate, oip::Service& service, OpenStreams& streams,
                                grpc::CallbackServerContext& context,
                                const absl::StatusOr<access::Identity>& identity);

  // No request is read any more; ends with Unavailable when those that were read are answered.
  void End();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override;

 private:
  // A request of the stream and, when it is there, its answer.
  struct Entry {
    explicit Entry(serving::ServingState& state) : open(state) {}
    const serving::ServingState::OpenCall open;
    std::string id;
    std::string model;
    bool answered = false;
    absl::Status status;
    grpc::ByteBuffer answer;
  };

  InferenceStream(const Gate& gate, oip::Service& service, OpenStreams& streams,
                  grpc::CallbackServerContext& context);
  void EndWith(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Entry* entry, grpc::ByteBuffer& bytes);
  // A read has ended, and its request was taken: the next one may come.
  void GoOn(bool ok, bool was_large);
  serving::Caller MakeCaller() const;
  void Answered(Entry& entry, absl::StatusOr<inference::ModelInferResponse> answer);
  // Starts what can be started: a write, a read, or the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Gate& gate_;
  oip::Service& service_;
  OpenStreams& streams_;
  grpc::CallbackServerContext& call_;
  const absl::Time deadline_;
  const bool errors_end_it_;
  const serving::CallContext context_;
  const uint32_t connection_;
  access::Identity identity_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();

  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer request_;  // of the read under way
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more will be read
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;  // because the server stops
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has let go of it
  size_t num_decoding_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Thread-safe. Gate and service must outlive it.
class InferenceService final : public RawService<inference::GRPCInferenceService> {
 public:
  InferenceService(const Gate& gate, oip::Service& service);

  // Lets streams end when what they were asked is answered; new ones are refused.
  void EndStreams() { streams_.EndAll(); }

 private:
  // Methods that read, and those that change which models are served.
  template <typename Request, typename Response>
  void ServeAnswer(const std::string& name);
  template <typename Request, typename Response>
  void ServeControl(const std::string& name);

  const Gate& gate_;
  oip::Service& service_;
  OpenStreams streams_;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_INFERENCE_SERVICE_H_
