// The files that operators write: tokens, tenants, and which versions are served. Each input is
// read as all three: what a server could go by, within the limits that the documents name, or an
// error.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/bundle/repository.h"
#include "ops/base/check.h"
#include "server/access/access.h"

namespace beamwright {
namespace {

void CheckCaller(const access::Caller& caller) {
  BW_CHECK(caller.roles != 0);
  BW_CHECK(!caller.name.empty() && !caller.tenant.empty());
}

void CheckTenant(const engine::Tenant& tenant) {
  BW_CHECK(tenant.weight >= 0.01 && tenant.weight <= 1000);
  BW_CHECK(tenant.rate > 0 && tenant.burst >= 1);
  BW_CHECK(tenant.max_running > 0 && tenant.max_rows > 0 && tenant.max_waiting > 0);
}

void UsePolicy(const std::string& text) {
  const absl::StatusOr<v1::ServingPolicy> policy = bundle::ParsePolicy(text);
  if (!policy.ok()) {
    return;
  }
  bundle::ModelFolder folder;
  for (int version = 12; version > 0; --version) {
    folder.versions.push_back({absl::StrCat(version), ""});
  }
  const bundle::VersionChoice choice = bundle::ChooseVersions(folder, *policy);
  BW_CHECK(choice.count > 0 || !choice.missing.empty());
  BW_CHECK(choice.candidates.size() <= folder.versions.size());
}

}  // namespace
}  // namespace beamwright

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto credentials = beamwright::access::ParseAuthFile(text); credentials.ok()) {
    for (const auto& token : credentials->tokens) {
      beamwright::CheckCaller(token.caller);
    }
    for (const auto& [name, caller] : credentials->peers) {
      beamwright::CheckCaller(caller);
    }
  }
  if (const auto tenants = beamwright::access::ParseTenantFile(text); tenants.ok()) {
    for (const auto& [name, tenant] : tenants->listed) {
      beamwright::CheckTenant(*tenant);
    }
    beamwright::CheckTenant(tenants->others);
  }
  beamwright::UsePolicy(text);
  return 0;
}
