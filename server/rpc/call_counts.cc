// Three counts, which watches and limits read:
//
// 1. ConnectionCalls: for each connection, by its peer's name as gRPC writes it (PeerOf), the calls
//    that are open and those that were ever asked.
// 2. CallBacklog: calls that gRPC has read and that no handler has yet. gRPC asks the allocator for
//    a context when a call's headers have come; the context is the call's Account, which counts
//    until Leave (a handler has it) and until it is destroyed (the call is over). Generic contexts
//    cannot be derived from, so their accounts are kept in a map.
// 3. IncomingCalls: calls whose request has not come whole. Only what takes a call out of the map,
//    its arrival or RefuseOlderThan, goes on with it, so a call is ended once.
#include "server/rpc/call_counts.h"

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <netinet/in.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/base/steady_time.h"

namespace beamwright::rpc {

std::string ConnectionCalls::PeerOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  // gRPC writes a URI, which escapes brackets.
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

std::shared_ptr<const ConnectionCalls::Counts> ConnectionCalls::Add(const std::string& peer) {
  if (peer.empty()) {
    return nullptr;
  }
  auto counts = std::make_shared<Counts>();
  absl::MutexLock lock(&mutex_);
  connections_[peer] = counts;
  return counts;
}

void ConnectionCalls::Remove(const std::string& peer, const std::shared_ptr<const Counts>& counts) {
  absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end() && found->second == counts) {
    connections_.erase(found);
  }
}

std::shared_ptr<ConnectionCalls::Counts> ConnectionCalls::Find(absl::string_view peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(peer);
  return found == connections_.end() ? nullptr : found->second;
}

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

void IncomingCalls::Add(IncomingCall& call) {
  const absl::Time now = SteadyNow();
  absl::MutexLock lock(&mutex_);
  calls_.emplace(&call, now);
}

bool IncomingCalls::Take(IncomingCall& call) {
  absl::MutexLock lock(&mutex_);
  return calls_.erase(&call) > 0;
}

bool IncomingCalls::Arrived(IncomingCall& call, bool ok) {
  if (!Take(call)) {
    return false;
  }
  if (!ok) {
    ++num_given_up_;
    call.Refuse(absl::CancelledError("the call ended before its request had come"));
  }
  return ok;
}

int IncomingCalls::RefuseOlderThan(absl::Time time, const absl::Status& status) {
  std::vector<IncomingCall*> refused;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (it->second < time) {
        refused.push_back(it->first);
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
  }
  // A call lives until it is ended, and only who took it out ends it.
  for (IncomingCall* call : refused) {
    call->Refuse(status);
  }
  return static_cast<int>(refused.size());
}

}  // namespace beamwright::rpc
