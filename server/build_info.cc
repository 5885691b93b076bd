#include "server/build_info.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <spdlog/version.h>

#include <boost/version.hpp>
#include <utility>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "ops/base/cpu.h"
#include "ops/base/json_writer.h"

namespace beamwright {
std::string BuildInfoJson() {
  const std::pair<const char*, std::string> libraries[] = {
      {"abseil", absl::StrCat(ABSL_LTS_RELEASE_VERSION, ".", ABSL_LTS_RELEASE_PATCH_LEVEL)},
      {"boost", absl::StrCat(BOOST_VERSION / 100000, ".", BOOST_VERSION / 100 % 1000, ".",
                             BOOST_VERSION % 100)},
      {"grpc", grpc::Version()},
      {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
      {"spdlog", absl::StrCat(SPDLOG_VER_MAJOR, ".", SPDLOG_VER_MINOR, ".", SPDLOG_VER_PATCH)},
  };
  JsonWriter json;
  json.BeginObject();
  json.Key("name").String("beamwright-server");
  json.Key("version").String(BEAMWRIGHT_VERSION);
  json.Key("git").String(BEAMWRIGHT_COMMIT);
  json.Key("compiler").String(BEAMWRIGHT_COMPILER);
  json.Key("build_type").String(BEAMWRIGHT_BUILD_TYPE);
  json.Key("instruction_sets").BeginArray();
  for (const absl::string_view name : InstructionSets()) {
    json.String(name);
  }
  json.EndArray();
  json.Key("instruction_set").String(InstructionSet());
  json.Key("libraries").BeginObject();
  for (const auto& [name, version] : libraries) {
    json.Key(name).String(version);
  }
  json.EndObject().EndObject();
  return json.text() + "\n";
}

}  // namespace beamwright
