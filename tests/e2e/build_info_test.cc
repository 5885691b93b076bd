// beamwright-server --version, for people and for programs.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "google/protobuf/struct.pb.h"
#include "tests/client/process.h"

namespace beamwright::e2e {
namespace {

using ::testing::IsSupersetOf;
using ::testing::StartsWith;

client::ProcessResult RunServer(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {BEAMWRIGHT_SERVER};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return client::Process(all, "").Wait();
}

TEST(BuildInfoTest, AsJson) {
  const client::ProcessResult result = RunServer({"--version", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  google::protobuf::Struct info;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &info).ok()) << result.out;
  std::vector<std::string> fields;
  for (const auto& [name, value] : info.fields()) {
    fields.push_back(name);
  }
  EXPECT_THAT(fields, IsSupersetOf({"name", "version", "git", "compiler", "build_type",
                                    "instruction_set", "instruction_sets", "libraries"}));
  const auto& libraries = info.fields().at("libraries").struct_value().fields();
  for (const char* library : {"abseil", "boost", "grpc", "openssl", "protobuf"}) {
    ASSERT_EQ(libraries.count(library), 1u) << library;
    EXPECT_THAT(libraries.at(library).string_value(), testing::MatchesRegex("[0-9.]+[0-9a-z]*"))
        << library;
  }
  // The same as the text form.
  EXPECT_THAT(RunServer({"--version"}).out,
              StartsWith("beamwright-server " + info.fields().at("version").string_value()));
}

}  // namespace
}  // namespace beamwright::e2e
