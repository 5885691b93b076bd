// The services of beamwright.v1 over gRPC's callback API. A handler parses and hands over to
// serving; no gRPC thread waits for a step. All are thread-safe; what they are made from must
// outlive them.
#ifndef BEAMWRIGHT_SERVER_RPC_SERVICES_H_
#define BEAMWRIGHT_SERVER_RPC_SERVICES_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "beamwright/v1/model.grpc.pb.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "beamwright/v1/translate.grpc.pb.h"
#include "google/protobuf/descriptor.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "inference/grpc_service.pb.h"
#include "server/access/access.h"
#include "server/oip/service.h"
#include "server/rpc/gate.h"
#include "server/rpc/raw_service.h"
#include "server/serving/core.h"
#include "server/serving/model_registry.h"
#include "server/translate/translate.h"

namespace beamwright::rpc {

class TranslateService final : public RawService<v1::TranslateService> {
 public:
  TranslateService(const Gate& gate, serving::Core& core);

 private:
  translate::Translator translator_;
};

// Which models are served.
class ModelService final : public RawService<v1::ModelService> {
 public:
  ModelService(const Gate& gate, const serving::ModelRegistry& models);
};

class DecodeService final : public RawService<v1::DecodeService> {
 public:
  DecodeService(const Gate& gate, serving::Core& core);
};

class RecognizeService final : public RawService<v1::RecognizeService> {
 public:
  RecognizeService(const Gate& gate, serving::Core& core);
};

// HealthService: grpc.health.v1. gRPC's own service runs a handler when the whole request has come
// (raw_service.h), so that nothing bounds the headers of calls that never send one.

class HealthCall;

// Thread-safe. The gate must outlive it, and it must outlive its calls.
class HealthService final : public RawService<grpc::health::v1::Health> {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  explicit HealthService(const Gate& gate);
  // Of a model or a service by name, or of the server by "". Is sent to those who watch the name.
  void Set(const std::string& name, bool is_serving);

 private:
  friend class HealthCall;

  // SERVICE_UNKNOWN for a name that was never set.
  Status Find(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<HealthCall*>> watches_ ABSL_GUARDED_BY(mutex_);
};

// InferenceService: inference.GRPCInferenceService, the Open Inference Protocol over gRPC.

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
    Entry(serving::ServingState& state, serving::MemoryAccount::Hold held)
        : open(state), hold(std::move(held)) {}
    const serving::ServingState::OpenCall open;
    std::string id;
    std::string model;
    bool answered = false;
    absl::Status status;
    grpc::ByteBuffer answer;
    serving::MemoryAccount::Hold hold;  // of the request, and then of the answer
  };

  InferenceStream(const Gate& gate, oip::Service& service, OpenStreams& streams,
                  grpc::CallbackServerContext& context);
  void EndWith(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Entry* entry, grpc::ByteBuffer& bytes);
  // A read has ended, and its request was taken: the next one may come.
  void GoOn(bool ok, bool was_large);
  serving::Caller MakeCaller() const;
  void Answered(Entry& entry, absl::StatusOr<inference::ModelInferResponse> answer);
  // Sets the entry's answer.
  void SetAnswer(Entry& entry, absl::StatusOr<inference::ModelInferResponse> answer) const;
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
  UnsentMessage unsent_ ABSL_GUARDED_BY(mutex_);  // of the write under way
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;   // nothing more will be read
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;   // because the server stops
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has let go of it
  size_t num_decoding_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_answered_ ABSL_GUARDED_BY(mutex_) = 0;  // of entries_
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

// Server reflection, in both versions that clients ask for. gRPC's own has a thread for each call,
// sends with a file all that it imports, and passes no gate.

// ReflectionAnswers: what server reflection answers, made once. A file goes without those that it
// imports, for which clients ask by name, so an answer is as small as the file.

// Thread-safe.
class ReflectionAnswers {
 public:
  // Of the services that the files declare, with all that the files import.
  explicit ReflectionAnswers(const std::vector<const google::protobuf::FileDescriptor*>& files);

  // The messages of v1 have the wire form of v1alpha's. An error is an answer, too.
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request) const;

 private:
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  void Add(const google::protobuf::FileDescriptor& file);
  // Null, or of no service: not found.
  void AnswerFile(const google::protobuf::FileDescriptor* file, Response& response) const;
  void AnswerNumbers(const std::string& type, Response& response) const;

  std::vector<std::string> services_;
  std::map<std::string, std::string> files_;  // by name, serialised
};

// `Generated` is the service of a version. Thread-safe. Gate and answers must outlive it.
template <typename Generated>
class ReflectionService final : public RawService<Generated> {
 public:
  ReflectionService(const Gate& gate, const ReflectionAnswers& answers);
};

extern template class ReflectionService<grpc::reflection::v1::ServerReflection>;
extern template class ReflectionService<grpc::reflection::v1alpha::ServerReflection>;

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_SERVICES_H_
