// Reads the two files of access: tokens and peers with their roles (ParseAuthFile), and tenants
// with weights, rates and limits (ParseTenantFile). Both are messages in text form.
//
// All faults of a file are collected and reported together, each with its field, as in
// "tokens[3].sha256: must be 64 hexadecimal digits". A caller without a tenant is one by its name.
// Tokens are in the file as digests, so that the file does not contain what lets a caller in.
#include "server/access/access_files.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/access.pb.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::access {
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

}  // namespace beamwright::access
