// Roles, and which of them a call needs: one table for every protocol.
#ifndef BEAMWRIGHT_SERVER_ACCESS_ROLES_H_
#define BEAMWRIGHT_SERVER_ACCESS_ROLES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::access {

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

}  // namespace beamwright::access

#endif  // BEAMWRIGHT_SERVER_ACCESS_ROLES_H_
