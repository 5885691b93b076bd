// StreamTranslateCall: a StreamTranslate call, as gRPC sees it. It writes one message at a time;
// what comes meanwhile for a client that reads slowly becomes one message, up to a size.
#ifndef BEAMWRIGHT_SERVER_RPC_STREAM_TRANSLATE_CALL_H_
#define BEAMWRIGHT_SERVER_RPC_STREAM_TRANSLATE_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/translate.pb.h"
#include "server/rpc/one_request_call.h"
#include "server/rpc/raw_message.h"
#include "server/translate/translate.h"

namespace beamwright::rpc {

// Lives until gRPC is done with it and the translator has said all.
class StreamTranslateCall final : public OneRequestCall {
 public:
  static StreamTranslateCall* Start(const Gate& gate, serving::Core& core,
                                    translate::Translator& translator,
                                    grpc::CallbackServerContext& context,
                                    const GuardedMethod& method);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_->Cancel(); }
  void OnDone() override { self_ = nullptr; }

 private:
  StreamTranslateCall(const Gate& gate, serving::Core& core, translate::Translator& translator,
                      grpc::CallbackServerContext& context);
  void OnRequest(grpc::ByteBuffer& bytes) override { Start(Parse<v1::TranslateRequest>(bytes)); }
  void OnRefused(const absl::Status& status) override { Start(status); }
  // Starts to translate; a request that is an error is refused with it.
  void Start(absl::StatusOr<v1::TranslateRequest> request);
  void Add(v1::TranslateResponse message);
  void End(const absl::Status& status);
  // Writes what there is, or ends the call; nothing while a write is under way.
  void Advance();

  serving::Core& core_;
  translate::Translator& translator_;
  const absl::Time deadline_;
  const std::shared_ptr<engine::CancelFlag> cancelled_ = std::make_shared<engine::CancelFlag>();
  std::shared_ptr<StreamTranslateCall> self_;  // while gRPC uses it

  absl::Mutex mutex_;
  std::deque<v1::TranslateResponse> messages_ ABSL_GUARDED_BY(mutex_);  // not written yet
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);             // behind the messages
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // of a message that cannot be written
  grpc::ByteBuffer bytes_;                        // of the write under way
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace beamwright::rpc

#endif  // BEAMWRIGHT_SERVER_RPC_STREAM_TRANSLATE_CALL_H_
