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

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/access.pb.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::access {

// Reads the two files of access: tokens and peers with their roles (ParseAuthFile), and tenants
// with weights, rates and limits (ParseTenantFile). Both are messages in text form.
//
// All faults of a file are collected and reported together, each with its field, as in
// "tokens[3].sha256: must be 64 hexadecimal digits". A caller without a tenant is one by its name.
// Tokens are in the file as digests, so that the file does not contain what lets a caller in.

namespace {

using status::Faults;

constexpr size_t kMaxName = 256;

// Names stand in logs and metrics.
void CheckName(const std::string& field, const std::string& name, Faults& faults) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '\\';
  });
  if (name.empty() || name.size() > kMaxName || !plain) {
    faults.Add(field, "must have 1 to ", kMaxName,
               " printable characters of ASCII, without space, \" and \\");
  }
}

template <typename Entry>
Caller ReadCaller(const std::string& field, const Entry& entry, Faults& faults) {
  Caller caller{entry.name(), 0, entry.tenant().empty() ? entry.name() : entry.tenant()};
  CheckName(field + ".name", entry.name(), faults);
  if (!entry.tenant().empty()) {
    CheckName(field + ".tenant", entry.tenant(), faults);
  }
  for (const int role : entry.roles()) {
    caller.roles |= role == v1::ROLE_DECODE    ? kDecode
                    : role == v1::ROLE_OBSERVE ? kObserve
                    : role == v1::ROLE_OPERATE ? kOperate
                                               : 0;
  }
  if (caller.roles == 0) {
    faults.Add(field + ".roles", "is empty; give ROLE_DECODE, ROLE_OBSERVE or ROLE_OPERATE");
  }
  return caller;
}

bool ReadDigest(const std::string& text, Digest& digest) {
  if (text.size() != 2 * digest.size() ||
      !std::all_of(text.begin(), text.end(),
                   [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
    return false;
  }
  const std::string bytes = absl::HexStringToBytes(text);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return true;
}

engine::Tenant ReadTenant(const v1::TenantConfig& config) {
  engine::Tenant tenant;
  tenant.name = config.name();
  tenant.weight = config.has_weight() ? config.weight() : 1;
  if (config.rate() > 0) {
    tenant.rate = config.rate();
    tenant.burst = config.burst() > 0 ? config.burst() : config.rate();
    tenant.burst = std::max(tenant.burst, 1.0);
  }
  const auto limit = [](int value, int& into) { into = value > 0 ? value : into; };
  limit(config.max_running(), tenant.max_running);
  limit(config.max_rows(), tenant.max_rows);
  limit(config.max_waiting(), tenant.max_waiting);
  return tenant;
}

void CheckTenant(const std::string& field, const v1::TenantConfig& config, Faults& faults) {
  if (config.burst() > 0 && config.rate() == 0) {
    faults.Add(field + ".burst", "has no meaning without rate");
  }
}

}  // namespace

absl::StatusOr<Credentials> ParseAuthFile(const std::string& text) {
  v1::AuthFile file;
  BW_RETURN_IF_ERROR(bundle::ParseTextProto(text, file));
  Faults faults;
  bundle::CheckRules(file, "", faults);
  Credentials credentials;
  std::set<Digest> seen;
  for (int i = 0; i < file.tokens_size(); ++i) {
    const std::string field = absl::StrCat("tokens[", i, "]");
    Credentials::Token token{{}, ReadCaller(field, file.tokens(i), faults)};
    if (!ReadDigest(file.tokens(i).sha256(), token.digest)) {
      faults.Add(field + ".sha256", "must be 64 hexadecimal digits");
    } else if (!seen.insert(token.digest).second) {
      faults.Add(field + ".sha256", "is given twice");
    }
    credentials.tokens.push_back(std::move(token));
  }
  for (int i = 0; i < file.peers_size(); ++i) {
    const std::string field = absl::StrCat("peers[", i, "]");
    Caller caller = ReadCaller(field, file.peers(i), faults);
    if (!credentials.peers.emplace(file.peers(i).name(), std::move(caller)).second) {
      faults.Add(field + ".name", "is given twice");
    }
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return credentials;
}

absl::StatusOr<Tenants> ParseTenantFile(const std::string& text) {
  v1::TenantFile file;
  BW_RETURN_IF_ERROR(bundle::ParseTextProto(text, file));
  Faults faults;
  bundle::CheckRules(file, "", faults);
  Tenants tenants;
  tenants.trust_header = file.trust_header();
  for (int i = 0; i < file.tenants_size(); ++i) {
    const std::string field = absl::StrCat("tenants[", i, "]");
    const v1::TenantConfig& config = file.tenants(i);
    CheckName(field + ".name", config.name(), faults);
    CheckTenant(field, config, faults);
    auto tenant = std::make_shared<const engine::Tenant>(ReadTenant(config));
    if (!tenants.listed.emplace(config.name(), std::move(tenant)).second) {
      faults.Add(field + ".name", "is given twice");
    }
  }
  if (!file.others().name().empty()) {
    faults.Add("others.name", "must not be set; it stands for all that are not listed");
  }
  CheckTenant("others", file.others(), faults);
  tenants.others = ReadTenant(file.others());
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return tenants;
}

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
