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
  if (request_.Length() <= Gate::kAtOnceBytes) {
    OnRequest(request_);
    return;
  }
  serving::Caller caller{};
  caller.tenant = identity_.tenant;
  caller.priority = identity_.priority;
  caller.connection = ConnectionOf(context_);
  const absl::Status posted =
      gate_.reader().Post(caller, [this](const absl::Status& outcome) { ReadLarge(outcome); });
  if (!posted.ok()) {
    ReadLarge(posted);
  }
}

void OneRequestCall::ReadLarge(const absl::Status& outcome) {
  const absl::Status status =
      outcome.ok() && context_.IsCancelled()
          ? absl::CancelledError("the call ended before its request was read")
          : outcome;
  if (status.ok()) {
    OnRequest(request_);
  } else {
    request_.Clear();
    OnRefused(status);
  }
}

void OneRequestCall::Refuse(const absl::Status& status) {
  open_.emplace(gate_.state());
  OnRefused(status);
}

}  // namespace beamwright::rpc
