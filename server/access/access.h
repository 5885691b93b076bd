// Access: who calls, and whether they may. A caller is known by a bearer token, else by the client
// certificate of its connection; without a token file and without client certificates everybody may
// do everything. Protocols ask before they read a request.
#ifndef BEAMWRIGHT_SERVER_ACCESS_ACCESS_H_
#define BEAMWRIGHT_SERVER_ACCESS_ACCESS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/request/tenant.h"

namespace beamwright::access {

// Roles, and which of them a call needs: one table for every protocol.

// A set of roles, as bits.
using Roles = uint8_t;
inline constexpr Roles kDecode = 1;
inline constexpr Roles kObserve = 2;
inline constexpr Roles kOperate = 4;
inline constexpr Roles kAnyRole = kDecode | kObserve | kOperate;
// Of a call: open to everybody.
inline constexpr Roles kOpen = 0;

// "decode or observe".
std::string RoleNames(Roles roles);

// A call, and the roles of which its caller must have one.
struct CallRule {
  // gRPC: "/package.Service/Method", or "/package.Service/*". HTTP: "POST /v2/models/*/infer", a
  // "*" stands for one piece of the path, and GET for HEAD as well.
  absl::string_view call;
  Roles roles;
};
absl::Span<const CallRule> CallRules();

// What is in no rule needs kOperate: a forgotten new call stays closed.
Roles RolesForMethod(absl::string_view method);
Roles RolesForPath(absl::string_view verb, absl::string_view path);

// The files of --auth-token-file and --tenant-file, parsed and checked.

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

struct AccessOptions {
  std::string token_file;   // v1::AuthFile; empty: no tokens
  std::string tenant_file;  // v1::TenantFile; empty: tenants without limits
  // Connections bring client certificates that have been verified.
  bool verified_peers = false;
};

// Names of headers, in lower case as gRPC wants them.
inline constexpr char kAuthorizationHeader[] = "authorization";
inline constexpr char kTenantHeader[] = "beamwright-tenant";
inline constexpr char kPriorityHeader[] = "beamwright-priority";

// What a call brings to say who it comes from.
struct Proof {
  absl::string_view authorization;       // the header: "Bearer TOKEN"; empty: none
  absl::string_view tenant;              // the header beamwright-tenant
  std::vector<absl::string_view> peers;  // names of the client's certificate
  absl::string_view priority;            // the header beamwright-priority: "1" to "3"; empty: 2
};

struct Identity {
  std::string name;  // empty: anybody
  Roles roles = kAnyRole;
  engine::TenantPtr tenant;  // null: callers without a name, without limits
  int priority = engine::kNormalPriority;
};

// Thread-safe.
class Access {
 public:
  // Everybody may do everything.
  Access();
  // Reads the files: NotFound, InvalidArgument naming file and fields.
  static absl::StatusOr<std::unique_ptr<Access>> Load(const AccessOptions& options);
  ~Access();

  // Reads files again that have changed. An error, with all that it says, leaves things as they
  // were.
  absl::Status Refresh();

  // InvalidArgument: a bad priority. Unauthenticated: no credentials, or wrong ones.
  // PermissionDenied: none of `roles`. kOpen asks for nothing. `call` is for the message.
  absl::StatusOr<Identity> Admit(const Proof& proof, Roles roles, absl::string_view call) const;

  // Whether calls need credentials at all.
  bool guarded() const { return !options_.token_file.empty() || options_.verified_peers; }
  // True if all callers are alike: neither credentials nor tenants need be looked at.
  bool open() const { return !guarded() && options_.tenant_file.empty(); }

 private:
  struct State;

  std::shared_ptr<const State> state() const;
  absl::StatusOr<std::shared_ptr<const State>> Read(const State* before) const;

  const AccessOptions options_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const State> state_ ABSL_GUARDED_BY(mutex_);
  explicit Access(const AccessOptions& options);
};

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_ACCESS_H_
