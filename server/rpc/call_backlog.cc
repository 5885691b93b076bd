#include "server/rpc/call_backlog.h"

#include <grpcpp/generic/async_generic_service.h>

#include <utility>

namespace beamwright::rpc {

// What is counted of a call.
class CallBacklog::Account {
 public:
  explicit Account(CallBacklog& backlog) : backlog_(backlog) {
    ++backlog_.size_;
    ++backlog_.num_calls_;
  }
  ~Account() {
    Leave(nullptr);  // calls that end without a handler of ours: those of gRPC's own services
    --backlog_.num_calls_;
    if (connection_ != nullptr) {
      --connection_->num_open;
    }
  }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  void Leave(std::shared_ptr<ConnectionCalls::Counts> connection) {
    backlog_.size_ -= waits_.exchange(false) ? 1 : 0;
    if (connection != nullptr) {
      ++connection->num_open;
      connection_ = std::move(connection);
    }
  }
  void CountAsked() {
    if (connection_ != nullptr) {
      ++connection_->num_asked;
    }
  }

 private:
  CallBacklog& backlog_;
  std::shared_ptr<ConnectionCalls::Counts> connection_;  // once a handler has it
  std::atomic<bool> waits_{true};
};

class CallBacklog::Context : public grpc::CallbackServerContext, public CallBacklog::Account {
 public:
  explicit Context(CallBacklog& backlog) : Account(backlog) {}
};

class CallBacklog::Allocator : public grpc::ContextAllocator {
 public:
  explicit Allocator(CallBacklog& backlog) : backlog_(backlog) {}
  grpc::CallbackServerContext* NewCallbackServerContext() override { return new Context(backlog_); }
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    auto* context = new grpc::GenericCallbackServerContext;
    absl::MutexLock lock(&backlog_.mutex_);
    backlog_.generic_.emplace(context, std::make_unique<Account>(backlog_));
    return context;
  }
  void Release(grpc::CallbackServerContext* context) override {
    delete static_cast<Context*>(context);
  }
  void Release(grpc::GenericCallbackServerContext* context) override {
    {
      absl::MutexLock lock(&backlog_.mutex_);
      backlog_.generic_.erase(context);
    }
    delete context;
  }

 private:
  CallBacklog& backlog_;
};

CallBacklog::CallBacklog() = default;
CallBacklog::~CallBacklog() = default;

std::unique_ptr<grpc::ContextAllocator> CallBacklog::MakeAllocator() {
  return std::make_unique<Allocator>(*this);
}

CallBacklog::Account* CallBacklog::AccountOf(grpc::CallbackServerContext& context) {
  if (auto* counted = dynamic_cast<Account*>(&context)) {
    return counted;
  }
  absl::MutexLock lock(&mutex_);
  const auto found = generic_.find(&context);
  return found == generic_.end() ? nullptr : found->second.get();
}

void CallBacklog::Leave(grpc::CallbackServerContext& context,
                        std::shared_ptr<ConnectionCalls::Counts> connection) {
  ++num_left_;
  if (Account* account = AccountOf(context)) {
    account->Leave(std::move(connection));
  }
}

void CallBacklog::CountAsked(grpc::CallbackServerContext& context) {
  if (Account* account = AccountOf(context)) {
    account->CountAsked();
  }
}

}  // namespace beamwright::rpc
