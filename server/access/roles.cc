// Which role a call needs, by the gRPC method or by the verb and path of HTTP: the table kRules, of
// which the first rule that fits holds.
//
// "*" in a rule fits one or more characters except "/" (Fits). HEAD is as GET. A call that no rule
// fits needs the operator's role, so that a call that is added without a rule is not open.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/access/access.h"

namespace beamwright::access {
namespace {

// The first rule that fits holds.
constexpr CallRule kRules[] = {
    {"/grpc.health.v1.Health/*", kOpen},
    {"/grpc.reflection.v1.ServerReflection/*", kAnyRole},
    {"/grpc.reflection.v1alpha.ServerReflection/*", kAnyRole},
    {"/beamwright.v1.DecodeService/*", kDecode},
    {"/beamwright.v1.RecognizeService/*", kDecode},
    {"/beamwright.v1.TranslateService/*", kDecode},
    {"/beamwright.v1.ModelService/ListModels", kAnyRole},
    {"/beamwright.v1.ModelService/DescribeModel", kAnyRole},
    {"/inference.GRPCInferenceService/ServerLive", kOpen},
    {"/inference.GRPCInferenceService/ServerReady", kOpen},
    {"/inference.GRPCInferenceService/ModelReady", kAnyRole},
    {"/inference.GRPCInferenceService/ServerMetadata", kAnyRole},
    {"/inference.GRPCInferenceService/ModelMetadata", kAnyRole},
    {"/inference.GRPCInferenceService/ModelConfig", kAnyRole},
    {"/inference.GRPCInferenceService/ModelInfer", kDecode},
    {"/inference.GRPCInferenceService/ModelStreamInfer", kDecode},
    {"/inference.GRPCInferenceService/ModelStatistics", kObserve | kOperate},
    {"/inference.GRPCInferenceService/RepositoryIndex", kObserve | kOperate},
    {"/inference.GRPCInferenceService/*", kOperate},

    // Files that are the same for everybody; what they show is asked for with the caller's token.
    {"GET /", kOpen},
    {"GET /page/*", kOpen},
    {"GET /openapi.json", kOpen},
    {"GET /livez", kOpen},
    {"GET /readyz", kOpen},
    {"GET /healthz", kOpen},
    {"GET /startupz", kOpen},
    {"GET /v2/health/live", kOpen},
    {"GET /v2/health/ready", kOpen},
    {"GET /health", kOpen},  // LibreTranslate's clients ask these two
    {"GET /frontend/settings", kOpen},
    {"GET /languages", kAnyRole},
    {"POST /languages", kAnyRole},
    {"POST /translate", kDecode},
    {"POST /translate_file", kDecode},
    {"POST /detect", kDecode},
    {"POST /v2/translate", kDecode},  // DeepL's
    {"GET /v2/languages", kAnyRole},
    {"POST /v2/languages", kAnyRole},
    {"GET /v2/usage", kAnyRole},
    {"POST /v2/usage", kAnyRole},
    {"GET /v1/status", kObserve | kOperate},
    {"GET /v1/models", kAnyRole},
    {"GET /v1/models/*", kAnyRole},
    {"GET /v1/models/*/versions/*", kAnyRole},
    {"POST /v1/models/*", kDecode},  // NAME:decode
    {"POST /v1/models/*/versions/*", kDecode},
    {"POST /v1/audio/transcriptions", kDecode},
    {"POST /v1/completions", kDecode},
    {"GET /v2", kAnyRole},
    {"GET /v2/models/stats", kObserve | kOperate},
    {"GET /v2/models/*", kAnyRole},
    {"GET /v2/models/*/ready", kAnyRole},
    {"GET /v2/models/*/config", kAnyRole},
    {"GET /v2/models/*/stats", kObserve | kOperate},
    {"GET /v2/models/*/versions/*", kAnyRole},
    {"GET /v2/models/*/versions/*/ready", kAnyRole},
    {"GET /v2/models/*/versions/*/config", kAnyRole},
    {"GET /v2/models/*/versions/*/stats", kObserve | kOperate},
    {"POST /v2/models/*/infer", kDecode},
    {"POST /v2/models/*/versions/*/infer", kDecode},
    {"GET /v2/logging", kOperate},  // as LogSettings, which is both
    {"POST /v2/logging", kOperate},
    {"POST /v2/repository/index", kObserve | kOperate},
    {"POST /v2/repository/models/*/load", kOperate},
    {"POST /v2/repository/models/*/unload", kOperate},
    {"GET /debug/scheduler", kObserve | kOperate},
};

bool Fits(absl::string_view pattern, absl::string_view call) {
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*') {
      const size_t begin = at;
      while (at < call.size() && call[at] != '/') {
        ++at;
      }
      if (at == begin) {
        return false;
      }
    } else if (at == call.size() || call[at++] != pattern[i]) {
      return false;
    }
  }
  return at == call.size();
}

Roles Find(absl::string_view call) {
  for (const CallRule& rule : kRules) {
    if (Fits(rule.call, call)) {
      return rule.roles;
    }
  }
  return kOperate;
}

}  // namespace

std::string RoleNames(Roles roles) {
  std::vector<absl::string_view> names;
  for (const auto& [role, name] : {std::pair<Roles, absl::string_view>(kDecode, "decode"),
                                   {kObserve, "observe"},
                                   {kOperate, "operate"}}) {
    if ((roles & role) != 0) {
      names.push_back(name);
    }
  }
  return absl::StrJoin(names, " or ");
}

absl::Span<const CallRule> CallRules() { return kRules; }

Roles RolesForMethod(absl::string_view method) { return Find(method); }

Roles RolesForPath(absl::string_view verb, absl::string_view path) {
  const absl::string_view as = verb == "HEAD" ? "GET" : verb;
  return Find(absl::StrCat(as, " ", path));
}

}  // namespace beamwright::access
