#include "server/access/guard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::access {
namespace {

absl::Status Check(const GuardOptions& options, const std::vector<std::string>& addresses) {
  if (options.tls.cert.empty() != options.tls.key.empty()) {
    return Invalid("tls-cert and tls-key: give both or neither");
  }
  const bool tls = !options.tls.cert.empty();
  if (!tls && !options.tls.client_ca.empty()) {
    return Invalid("tls-client-ca: has no meaning without tls-cert and tls-key");
  }
  const auto far = std::find_if_not(addresses.begin(), addresses.end(), IsLocal);
  if (!options.token_file.empty() && !tls && !options.tokens_in_clear && far != addresses.end()) {
    return Invalid("auth-token-file: tokens would cross the network in clear text to '", *far,
                   "'; set tls-cert and tls-key, listen on 127.0.0.1, or, where something else "
                   "encrypts, set auth-in-clear");
  }
  return absl::OkStatus();
}

}  // namespace

void Guard::Refresh() const {
  if (refresher_ != nullptr) {
    refresher_->Hurry();
  }
}

bool IsLocal(const std::string& address) {
  return address == "none" || absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, "unix-abstract:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") || absl::StartsWith(address, "[::1]:");
}

absl::StatusOr<std::unique_ptr<Guard>> Guard::Make(const GuardOptions& options,
                                                   const std::vector<std::string>& addresses) {
  BW_RETURN_IF_ERROR(Check(options, addresses));
  std::unique_ptr<Guard> guard(new Guard);
  AccessOptions api{options.token_file, options.tenant_file, !options.tls.client_ca.empty()};
  BW_ASSIGN_OR_RETURN(guard->api_, Access::Load(api));
  AccessOptions admin = api;
  admin.verified_peers = false;
  BW_ASSIGN_OR_RETURN(guard->admin_, Access::Load(admin));
  if (!options.tls.cert.empty()) {
    BW_ASSIGN_OR_RETURN(guard->tls_, TlsContext::Load(options.tls));
  }
  Guard& made = *guard;
  // Both read the same files, whose fault is said once.
  std::vector<std::function<absl::Status()>> refresh = {[&made] {
    absl::Status status = made.api_->Refresh();
    status.Update(made.admin_->Refresh());
    return status;
  }};
  if (made.tls_ != nullptr) {
    refresh.emplace_back([&made] { return Annotate(made.tls_->Refresh(), "TLS"); });
  }
  if (!made.api_->open() || made.tls_ != nullptr) {
    made.refresher_ = std::make_unique<Refresher>(options.refresh, std::move(refresh));
  }
  return guard;
}

namespace {

// Or the thread would never sleep.
constexpr absl::Duration kShortest = absl::Milliseconds(10);

}  // namespace

Refresher::Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh)
    : interval_(std::max(interval, kShortest)),
      refresh_(std::move(refresh)),
      last_errors_(refresh_.size()),
      thread_("bw-refresher", interval_, [this] { Look(); }) {}

void Refresher::Look() {
  for (size_t i = 0; i < refresh_.size(); ++i) {
    const absl::Status status = refresh_[i]();
    std::string error(status.message());
    if (error != last_errors_[i] && !error.empty()) {
      spdlog::error("{}; what was read before holds on", error);
    }
    last_errors_[i] = std::move(error);
  }
}

}  // namespace beamwright::access
