#include "server/rpc/call_backlog.h"

#include <grpcpp/generic/async_generic_service.h>

namespace beamwright::rpc {

class CallBacklog::Context : public grpc::CallbackServerContext {
 public:
  explicit Context(CallBacklog& backlog) : backlog_(backlog) {
    ++backlog_.size_;
    ++backlog_.num_calls_;
  }
  ~Context() {
    Leave();  // calls that end without a handler of ours: those of gRPC's own services
    --backlog_.num_calls_;
  }
  void Leave() { backlog_.size_ -= waits_.exchange(false) ? 1 : 0; }

 private:
  CallBacklog& backlog_;
  std::atomic<bool> waits_{true};
};

class CallBacklog::Allocator : public grpc::ContextAllocator {
 public:
  explicit Allocator(CallBacklog& backlog) : backlog_(backlog) {}
  grpc::CallbackServerContext* NewCallbackServerContext() override { return new Context(backlog_); }
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    return new grpc::GenericCallbackServerContext;  // there is no generic service
  }
  void Release(grpc::CallbackServerContext* context) override {
    delete static_cast<Context*>(context);
  }
  void Release(grpc::GenericCallbackServerContext* context) override { delete context; }

 private:
  CallBacklog& backlog_;
};

std::unique_ptr<grpc::ContextAllocator> CallBacklog::MakeAllocator() {
  return std::make_unique<Allocator>(*this);
}

void CallBacklog::Leave(grpc::CallbackServerContext& context) {
  ++num_left_;
  if (auto* counted = dynamic_cast<Context*>(&context)) {
    counted->Leave();
  }
}

}  // namespace beamwright::rpc
