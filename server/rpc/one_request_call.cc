#include "server/rpc/one_request_call.h"

#include <utility>

namespace beamwright::rpc {

void OneRequestCall::Begin(const GuardedMethod& method) {
  absl::StatusOr<access::Identity> identity = gate_.Admit(context_, method);
  if (!identity.ok()) {
    Refuse(identity.status());
    return;
  }
  identity_ = *std::move(identity);
  gate_.Expect(*this);
  StartRead(&request_);
}

void OneRequestCall::OnReadDone(bool ok) {
  if (!gate_.Arrived(*this, ok)) {
    return;
  }
  gate_.CountArrival(context_, request_);
  const absl::Status status =
      gate_.Resize(hold_, kCallBytes + static_cast<int64_t>(request_.Length()));
  if (!status.ok()) {
    request_.Clear();
    Refuse(status);
    return;
  }
  open_.emplace(gate_.state());
  // Parsing, and looking at many sources, takes long; and few callers wait on all others' thread.
  constexpr size_t kAtOnceBytes = 1 << 10;
  if (request_.Length() <= kAtOnceBytes) {
    OnRequest(request_);
  } else {
    gate_.reader().Post([this] { ReadLarge(); });
  }
}

void OneRequestCall::ReadLarge() {
  if (context_.IsCancelled()) {
    request_.Clear();
    OnRefused(absl::CancelledError("the call ended before its request was read"));
  } else {
    OnRequest(request_);
  }
}

void OneRequestCall::Refuse(const absl::Status& status) {
  open_.emplace(gate_.state());
  OnRefused(status);
}

}  // namespace beamwright::rpc
