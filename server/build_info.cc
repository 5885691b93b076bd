#include "server/build_info.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <httplib.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <spdlog/version.h>

#include <utility>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#ifndef BEAMWRIGHT_NO_ONEDNN
#include "oneapi/dnnl/dnnl.h"
#endif
#include "ops/base/cpu.h"
#include "server/http/json.h"

namespace beamwright {
namespace {

std::string Member(absl::string_view name, absl::string_view value) {
  std::string text;
  http::AppendQuoted(name, text);
  text += ':';
  http::AppendQuoted(value, text);
  return text;
}

std::string OneDnnVersion() {
#ifdef BEAMWRIGHT_NO_ONEDNN
  return "none";
#else
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat(version.major, ".", version.minor, ".", version.patch);
#endif
}

}  // namespace

std::string BuildInfoJson() {
  const std::pair<const char*, std::string> libraries[] = {
      {"abseil", absl::StrCat(ABSL_LTS_RELEASE_VERSION, ".", ABSL_LTS_RELEASE_PATCH_LEVEL)},
      {"cpp-httplib", CPPHTTPLIB_VERSION},
      {"grpc", grpc::Version()},
      {"libmicrohttpd", MHD_get_version()},
      {"onednn", OneDnnVersion()},
      {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
      {"spdlog", absl::StrCat(SPDLOG_VER_MAJOR, ".", SPDLOG_VER_MINOR, ".", SPDLOG_VER_PATCH)},
  };
  std::string json = absl::StrCat(
      "{", Member("name", "beamwright-server"), ",", Member("version", BEAMWRIGHT_VERSION), ",",
      Member("git", BEAMWRIGHT_COMMIT), ",", Member("compiler", BEAMWRIGHT_COMPILER), ",",
      Member("build_type", BEAMWRIGHT_BUILD_TYPE), ",",
      R"("instruction_sets":["x86-64","avx2","avx512"],)",
      Member("instruction_set", InstructionSet()), R"(,"libraries":{)");
  const char* comma = "";
  for (const auto& [name, version] : libraries) {
    absl::StrAppend(&json, comma, Member(name, version));
    comma = ",";
  }
  return json + "}}\n";
}

}  // namespace beamwright
