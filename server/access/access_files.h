// The files of --auth-token-file and --tenant-file, parsed and checked. Private to access/.
#ifndef BEAMWRIGHT_SERVER_ACCESS_ACCESS_FILES_H_
#define BEAMWRIGHT_SERVER_ACCESS_ACCESS_FILES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/tenant.h"
#include "server/access/roles.h"

namespace beamwright::access {

using Digest = std::array<uint8_t, 32>;  // SHA-256

struct Caller {
  std::string name;
  Roles roles = 0;
  std::string tenant;
};

struct Credentials {
  struct Token {
    Digest digest;
    Caller caller;
  };
  std::vector<Token> tokens;
  std::map<std::string, Caller> peers;  // by a name of the certificate
};

struct Tenants {
  std::map<std::string, engine::TenantPtr> listed;
  engine::Tenant others;  // without a name
  bool trust_header = false;
};

// InvalidArgument names every fault: syntax with line and column, else the field.
absl::StatusOr<Credentials> ParseAuthFile(const std::string& text);
absl::StatusOr<Tenants> ParseTenantFile(const std::string& text);

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_ACCESS_FILES_H_
