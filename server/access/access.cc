// Who calls, what he may call, and whose share of the queue the call takes. Admit, in this order:
//
// 1. A call that is open to all (kOpen, such as a health check) passes. A server without
//    credentials and tenants only reads the priority.
// 2. The caller: a bearer token, found by its SHA-256 digest among those of the token file; all
//    entries are compared, each in constant time, so that the time says nothing about a token. Else
//    the names of a verified client certificate: those listed in the token file, or, without such a
//    file, any name, which may decode and observe but not operate the server.
// 3. The roles: PermissionDenied if the caller has none that the call takes.
// 4. The tenant: that of the caller's entry, or of the tenant header, if the file trusts it and
//    lists the name. Tenants that are not listed share the settings of `others`, each with a
//    separate share (TenantOf); after kMaxUnlisted names, further ones share a single tenant, so
//    that invented names cannot fill the memory.
// 5. The priority.
//
// Refresh reads the files again and replaces the whole State, which calls hold by a shared pointer:
// a call sees one version of both files. A file that has become empty is an error and changes
// nothing (CheckNotEmptied).
#include "server/access/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "server/access/access_files.h"

namespace beamwright::access {
namespace {

namespace reason = status::reason;

constexpr int64_t kMaxFileBytes = 8 << 20;
constexpr size_t kMaxTokenBytes = 4096;
// Names after these share one tenant.
constexpr size_t kMaxUnlisted = 4096;

Digest DigestOf(absl::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

absl::Status ReadPriority(absl::string_view text, int& priority) {
  if (text.empty()) {
    return absl::OkStatus();
  }
  int given = 0;
  if (!absl::SimpleAtoi(text, &given) || given < engine::kHighestPriority ||
      given > engine::kLowestPriority) {
    return status::InvalidField(kPriorityHeader, "must be a number from ", engine::kHighestPriority,
                                " (first) to ", engine::kLowestPriority);
  }
  priority = given;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Read(const std::string& path, const char* setting) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return Annotate(text.status(), setting);
  }
  return text;
}

// A writer that does not rename a new file over the old one empties the file first: an empty file,
// if it counted, would lock out all callers until the next look.
absl::Status CheckNotEmptied(const std::string& before, const std::string& now, const char* setting,
                             const std::string& path) {
  const auto is_blank = [](const std::string& text) {
    return absl::StripAsciiWhitespace(text).empty();
  };
  return is_blank(before) || !is_blank(now)
             ? absl::OkStatus()
             : Invalid(setting, " '", path,
                       "' has become empty, as while it is written; a file with nothing but a "
                       "comment takes all entries away");
}

}  // namespace

struct Access::State {
  std::string auth_text;
  std::string tenant_text;
  Credentials credentials;
  Tenants tenants;
  engine::TenantPtr nobody;  // callers without a name

  // Tenants whose names are not listed, made when they first call.
  mutable absl::Mutex mutex;
  mutable std::map<std::string, engine::TenantPtr> unlisted ABSL_GUARDED_BY(mutex);

  engine::TenantPtr TenantOf(const std::string& name) const {
    const auto listed = tenants.listed.find(name);
    if (listed != tenants.listed.end()) {
      return listed->second;
    }
    absl::MutexLock lock(&mutex);
    const auto known = unlisted.find(name);
    if (known != unlisted.end()) {
      return known->second;
    }
    if (name.empty() || unlisted.size() >= kMaxUnlisted) {
      return nobody;
    }
    engine::Tenant tenant = tenants.others;
    tenant.name = name;
    return unlisted[name] = std::make_shared<const engine::Tenant>(std::move(tenant));
  }

  // Null if unknown. Compares every token, for constant time.
  const Caller* Find(absl::string_view token) const {
    const Digest digest = DigestOf(token);
    const Caller* found = nullptr;
    for (const Credentials::Token& entry : credentials.tokens) {
      if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) {
        found = &entry.caller;
      }
    }
    return found;
  }
};

Access::Access() : Access(AccessOptions()) { state_ = std::make_shared<State>(); }

Access::Access(const AccessOptions& options) : options_(options) {}

Access::~Access() = default;

absl::StatusOr<std::unique_ptr<Access>> Access::Load(const AccessOptions& options) {
  std::unique_ptr<Access> access(new Access(options));
  BW_ASSIGN_OR_RETURN(auto state, access->Read(nullptr));
  absl::MutexLock lock(&access->mutex_);
  access->state_ = std::move(state);
  return access;
}

std::shared_ptr<const Access::State> Access::state() const {
  absl::ReaderMutexLock lock(&mutex_);
  return state_;
}

// Null if nothing has changed since `before`.
absl::StatusOr<std::shared_ptr<const Access::State>> Access::Read(const State* before) const {
  auto state = std::make_shared<State>();
  if (!options_.token_file.empty()) {
    BW_ASSIGN_OR_RETURN(state->auth_text, access::Read(options_.token_file, "auth-token-file"));
  }
  if (!options_.tenant_file.empty()) {
    BW_ASSIGN_OR_RETURN(state->tenant_text, access::Read(options_.tenant_file, "tenant-file"));
  }
  if (before != nullptr && before->auth_text == state->auth_text &&
      before->tenant_text == state->tenant_text) {
    return nullptr;
  }
  if (before != nullptr) {
    BW_RETURN_IF_ERROR(CheckNotEmptied(before->auth_text, state->auth_text, "auth-token-file",
                                       options_.token_file));
    BW_RETURN_IF_ERROR(CheckNotEmptied(before->tenant_text, state->tenant_text, "tenant-file",
                                       options_.tenant_file));
  }
  absl::StatusOr<Credentials> credentials = ParseAuthFile(state->auth_text);
  if (!credentials.ok()) {
    return Annotate(credentials.status(),
                    absl::StrCat("auth-token-file '", options_.token_file, "'"));
  }
  absl::StatusOr<Tenants> tenants = ParseTenantFile(state->tenant_text);
  if (!tenants.ok()) {
    return Annotate(tenants.status(), absl::StrCat("tenant-file '", options_.tenant_file, "'"));
  }
  state->credentials = *std::move(credentials);
  state->tenants = *std::move(tenants);
  if (!options_.tenant_file.empty()) {
    state->nobody = std::make_shared<const engine::Tenant>(state->tenants.others);
  }
  return state;
}

absl::Status Access::Refresh() {
  BW_ASSIGN_OR_RETURN(auto fresh, Read(state().get()));
  if (fresh != nullptr) {
    absl::MutexLock lock(&mutex_);
    state_ = std::move(fresh);
  }
  return absl::OkStatus();
}

absl::StatusOr<Identity> Access::Admit(const Proof& proof, Roles roles,
                                       absl::string_view call) const {
  Identity identity;
  if (roles == kOpen) {
    return identity;
  }
  if (open()) {
    BW_RETURN_IF_ERROR(ReadPriority(proof.priority, identity.priority));
    return identity;
  }
  const std::shared_ptr<const State> state = this->state();
  std::string tenant;
  if (!guarded()) {
    identity.roles = kAnyRole;
  } else if (!proof.authorization.empty()) {
    absl::string_view token = proof.authorization;
    const bool bearer = absl::StartsWithIgnoreCase(token, "bearer ");
    token.remove_prefix(bearer ? 7 : 0);
    const Caller* caller = bearer && token.size() <= kMaxTokenBytes ? state->Find(token) : nullptr;
    if (caller == nullptr) {
      return status::WithReason(
          absl::UnauthenticatedError(bearer ? "the bearer token is not known here"
                                            : "authorization: expected 'Bearer TOKEN'"),
          reason::kBadCredentials);
    }
    identity = {caller->name, caller->roles};
    tenant = caller->tenant;
  } else if (options_.verified_peers && !proof.peers.empty()) {
    const Caller* caller = nullptr;
    for (const absl::string_view name : proof.peers) {
      const auto found = state->credentials.peers.find(std::string(name));
      caller =
          caller == nullptr && found != state->credentials.peers.end() ? &found->second : caller;
    }
    if (caller != nullptr) {
      identity = {caller->name, caller->roles};
      tenant = caller->tenant;
    } else if (options_.token_file.empty()) {
      // The authority that signed the certificate decides who may call; not, who may operate.
      identity.name = tenant = std::string(proof.peers[0]);
      identity.roles = kDecode | kObserve;
    } else {
      return status::WithReason(
          absl::UnauthenticatedError(absl::StrCat("the client certificate '", proof.peers[0],
                                                  "' is not listed as a peer, and there is no "
                                                  "bearer token")),
          reason::kBadCredentials);
    }
  } else {
    return status::WithReason(
        absl::UnauthenticatedError("this call needs credentials: 'authorization: Bearer TOKEN'"),
        reason::kNoCredentials);
  }
  if ((identity.roles & roles) == 0) {
    return status::WithReason(
        absl::PermissionDeniedError(absl::StrCat("'", identity.name, "' may not call ", call,
                                                 ": it takes the role ", RoleNames(roles))),
        reason::kRoleMissing, {{"roles", RoleNames(roles)}});
  }
  if (state->tenants.trust_header && state->tenants.listed.count(std::string(proof.tenant)) > 0) {
    tenant = std::string(proof.tenant);
  }
  identity.tenant = state->TenantOf(tenant);
  BW_RETURN_IF_ERROR(ReadPriority(proof.priority, identity.priority));
  return identity;
}

}  // namespace beamwright::access
