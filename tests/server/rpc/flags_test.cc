#include "server/rpc/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <vector>

namespace beamwright::rpc {
namespace {

using ::testing::ElementsAre;

ParsedFlags Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "beamwright-server");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data());
}

TEST(FlagsTest, DefaultsAreThoseOfTheEngine) {
  const ParsedFlags parsed = Parse({"--model-path", "m"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.flags.grpc_address, "0.0.0.0:8001");
  EXPECT_EQ(parsed.flags.engine.num_threads, engine::EngineOptions().num_threads);
  EXPECT_EQ(parsed.flags.engine.max_rows, engine::EngineOptions().max_rows);
  EXPECT_EQ(parsed.flags.engine.max_queue, engine::EngineOptions().max_queue);
  EXPECT_EQ(parsed.flags.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(parsed.flags.port_file, "");
}

TEST(FlagsTest, EveryFlagReachesItsField) {
  const ParsedFlags parsed =
      Parse({"--model-repository", "a", "--model-repository=b", "--model-path", "c",
             "--grpc-address", "[::1]:9", "--threads", "3", "--max-rows", "64", "--max-queue", "0",
             "--drain-timeout", "1m30s", "--log-level", "debug", "--port-file", "p"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_THAT(parsed.flags.models.repositories, ElementsAre("a", "b"));
  EXPECT_THAT(parsed.flags.models.models, ElementsAre("c"));
  EXPECT_EQ(parsed.flags.grpc_address, "[::1]:9");
  EXPECT_EQ(parsed.flags.engine.num_threads, 3);
  EXPECT_EQ(parsed.flags.engine.max_rows, 64);
  EXPECT_EQ(parsed.flags.engine.max_queue, 0);
  EXPECT_EQ(parsed.flags.drain_timeout, absl::Seconds(90));
  EXPECT_EQ(parsed.flags.log_level, "debug");
  EXPECT_EQ(parsed.flags.port_file, "p");
}

TEST(FlagsTest, TheEnvironmentFillsInAndTheCommandLineGoesFirst) {
  setenv("BEAMWRIGHT_MODEL_REPOSITORY", "x:y", 1);
  setenv("BEAMWRIGHT_MAX_ROWS", "32", 1);
  setenv("BEAMWRIGHT_THREADS", "5", 1);
  const ParsedFlags parsed = Parse({"--threads", "2"});
  setenv("BEAMWRIGHT_MAX_ROWS", "none", 1);
  const ParsedFlags wrong = Parse({});
  for (const char* name :
       {"BEAMWRIGHT_MODEL_REPOSITORY", "BEAMWRIGHT_MAX_ROWS", "BEAMWRIGHT_THREADS"}) {
    unsetenv(name);
  }
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_THAT(parsed.flags.models.repositories, ElementsAre("x", "y"));
  EXPECT_EQ(parsed.flags.engine.max_rows, 32);
  EXPECT_EQ(parsed.flags.engine.num_threads, 2);
  EXPECT_EQ(wrong.exit_code, 2);
}

TEST(FlagsTest, TimesWithAndWithoutUnit) {
  const auto timeout = [](const char* text) {
    return Parse({"--model-path", "m", "--drain-timeout", text});
  };
  EXPECT_EQ(timeout("0").flags.drain_timeout, absl::ZeroDuration());
  EXPECT_EQ(timeout("2.5").flags.drain_timeout, absl::Milliseconds(2500));
  EXPECT_EQ(timeout("500ms").flags.drain_timeout, absl::Milliseconds(500));
  for (const char* bad : {"", "soon", "-1", "nan", "inf", "25h", "5 apples"}) {
    EXPECT_EQ(timeout(bad).exit_code, 2) << bad;
  }
}

TEST(FlagsTest, HelpAndVersionEndWell) {
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_EQ(Parse({"--version"}).exit_code, 0);
  EXPECT_EQ(Parse({}).exit_code, 2);
}

}  // namespace
}  // namespace beamwright::rpc
