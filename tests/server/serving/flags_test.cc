#include "server/serving/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "ops/base/memory.h"

namespace beamwright::serving {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedFlags Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "beamwright-server");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data());
}

TEST(FlagsTest, DefaultsAreThoseOfTheEngineButForStreams) {
  const ParsedFlags parsed = Parse({"--model-path", "m"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.flags.grpc_address, "127.0.0.1:8001");
  EXPECT_EQ(parsed.flags.http_address, "127.0.0.1:8000");
  EXPECT_EQ(parsed.flags.metrics_address, "127.0.0.1:8002");
  EXPECT_EQ(parsed.flags.engine.num_threads, engine::EngineOptions().num_threads);
  EXPECT_EQ(parsed.flags.engine.num_streams, engine::EngineOptions::kStreamsAsWorkIs);
  EXPECT_EQ(parsed.flags.engine.max_rows, engine::EngineOptions().max_rows);
  EXPECT_EQ(parsed.flags.engine.max_queue, engine::EngineOptions().max_queue);
  EXPECT_EQ(parsed.flags.load.compile.precision, std::nullopt);
  EXPECT_EQ(parsed.flags.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(parsed.flags.ports_file, "");
}

TEST(FlagsTest, EveryFlagReachesItsField) {
  const ParsedFlags parsed = Parse({"--model-repository",
                                    "a",
                                    "--model-repository=b",
                                    "--model-path",
                                    "c",
                                    "--grpc-address",
                                    "[::1]:9",
                                    "--threads",
                                    "3",
                                    "--max-rows",
                                    "64",
                                    "--max-queue",
                                    "9",
                                    "--max-beam-size",
                                    "8",
                                    "--max-target-length",
                                    "77",
                                    "--max-source-length",
                                    "66",
                                    "--precision",
                                    "int8",
                                    "--token-tables",
                                    "0.5",
                                    "--drain-timeout",
                                    "1m30s",
                                    "--log-level",
                                    "debug",
                                    "--ports-file",
                                    "p",
                                    "--http-address",
                                    "none",
                                    "--metrics-address",
                                    "m:1",
                                    "--drain-delay",
                                    "5s",
                                    "--http-threads",
                                    "3",
                                    "--http-max-body-bytes",
                                    "1000",
                                    "--http-timeout",
                                    "2s",
                                    "--grpc-max-receive-bytes",
                                    "2000",
                                    "--grpc-max-concurrent-streams",
                                    "4",
                                    "--grpc-max-connections",
                                    "5",
                                    "--grpc-max-connections-per-client",
                                    "6"});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_THAT(parsed.flags.models.repositories, ElementsAre("a", "b"));
  EXPECT_THAT(parsed.flags.models.models, ElementsAre("c"));
  EXPECT_EQ(parsed.flags.grpc_address, "[::1]:9");
  EXPECT_EQ(parsed.flags.engine.num_threads, 3);
  EXPECT_EQ(parsed.flags.engine.max_rows, 64);
  EXPECT_EQ(parsed.flags.engine.max_queue, 9);
  EXPECT_EQ(parsed.flags.load.compile.precision, v1::PRECISION_INT8);
  EXPECT_EQ(parsed.flags.load.compile.token_table_share, 0.5);
  EXPECT_EQ(parsed.flags.load.compile.max_beam_size, 8);
  EXPECT_EQ(parsed.flags.load.compile.max_target_length, 77);
  EXPECT_EQ(parsed.flags.load.compile.max_source_length, 66);
  EXPECT_EQ(parsed.flags.drain_timeout, absl::Seconds(90));
  EXPECT_EQ(parsed.flags.log_level, "debug");
  EXPECT_EQ(parsed.flags.ports_file, "p");
  EXPECT_EQ(parsed.flags.http_address, "none");
  EXPECT_EQ(parsed.flags.metrics_address, "m:1");
  EXPECT_EQ(parsed.flags.drain_delay, absl::Seconds(5));
  EXPECT_EQ(parsed.flags.http_threads, 3);
  EXPECT_EQ(parsed.flags.http_max_body_bytes, 1000);
  EXPECT_EQ(parsed.flags.http_timeout, absl::Seconds(2));
  EXPECT_EQ(parsed.flags.grpc_max_receive_bytes, 2000);
  EXPECT_EQ(parsed.flags.grpc_max_concurrent_streams, 4);
  EXPECT_EQ(parsed.flags.grpc_max_connections, 5);
  EXPECT_EQ(parsed.flags.grpc_max_connections_per_client, 6);
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

TEST(FlagsTest, APrecisionOrTheModels) {
  EXPECT_EQ(Parse({"--model-path", "m", "--precision", "f32"}).flags.load.compile.precision,
            v1::PRECISION_F32);
  EXPECT_EQ(Parse({"--model-path", "m", "--precision", "auto"}).flags.load.compile.precision,
            v1::PRECISION_AUTO);
  EXPECT_EQ(Parse({"--model-path", "m", "--precision", "model"}).flags.load.compile.precision,
            std::nullopt);
  EXPECT_EQ(Parse({"--model-path", "m", "--precision", "fp16"}).exit_code, 2);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"--model-path", "m", "--precision", "bf16-dot"}).exit_code, 2);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("'bf16-dot' is chosen by auto, where CPU and answers allow it; ask for auto "
                "or bf16"));
}

class SettingsFileTest : public ::testing::Test {
 protected:
  SettingsFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "beamwright-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~SettingsFileTest() override {
    unsetenv("BEAMWRIGHT_MAX_ROWS");
    unsetenv("BEAMWRIGHT_CONFIG");
    std::filesystem::remove_all(folder_);
  }

  std::string Write(const std::string& text) const {
    std::ofstream(folder_ + "/config") << text;
    return folder_ + "/config";
  }
  // What is said on standard error about settings that must be refused.
  static std::string Refusal(std::vector<const char*> arguments) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Parse(std::move(arguments)).exit_code, 2);
    return ::testing::internal::GetCapturedStderr();
  }

  std::string folder_;
};

TEST_F(SettingsFileTest, CommandLineThenEnvironmentThenFile) {
  const std::string file =
      Write("model-path = [\"a\", \"b\"]\nmax-rows = 1\nthreads = 1\nmax-queue = 1\n");
  setenv("BEAMWRIGHT_MAX_ROWS", "2", 1);
  setenv("BEAMWRIGHT_THREADS", "2", 1);
  const ParsedFlags parsed = Parse({"--config", file.c_str(), "--threads", "3"});
  unsetenv("BEAMWRIGHT_THREADS");
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_THAT(parsed.flags.models.models, ElementsAre("a", "b"));
  EXPECT_EQ(parsed.flags.engine.max_queue, 1);
  EXPECT_EQ(parsed.flags.engine.max_rows, 2);
  EXPECT_EQ(parsed.flags.engine.num_threads, 3);
}

TEST_F(SettingsFileTest, TheEnvironmentMayNameTheFile) {
  setenv("BEAMWRIGHT_CONFIG", Write("model-path = \"a\"\n").c_str(), 1);
  EXPECT_THAT(Parse({}).flags.models.models, ElementsAre("a"));
}

TEST_F(SettingsFileTest, WrongValuesAreNamedWithTheirSource) {
  std::string file = Write("max-rows = many\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}),
              AllOf(HasSubstr("file '" + file + "'"), HasSubstr("--max-rows"), HasSubstr("many")));
  file = Write("max-row = 1\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}), HasSubstr("no setting 'max-row'"));
  file = Write("[section]\nmax-rows = 1\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}), HasSubstr("no sections, such as [section]"));
  file = Write("help = true\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}), HasSubstr("no setting 'help'"));
  EXPECT_THAT(Refusal({"--config", "/does/not/exist"}), HasSubstr("/does/not/exist"));
  setenv("BEAMWRIGHT_MAX_ROWS", "0", 1);
  EXPECT_THAT(Refusal({"--model-path", "m"}),
              HasSubstr("environment variable BEAMWRIGHT_MAX_ROWS: --max-rows"));
  // What the command line overrides is not looked at.
  EXPECT_FALSE(Parse({"--model-path", "m", "--max-rows", "5"}).exit_code.has_value());
}

TEST_F(SettingsFileTest, WhatCouldNotStartIsRefusedByName) {
  const auto refusal = [](const std::string& flag, const char* value) {
    return Refusal({"--model-path", "m", "--check-config", flag.c_str(), value});
  };
  for (const char* flag : {"--grpc-address", "--http-address", "--metrics-address",
                           "--admin-address", "--websocket-address"}) {
    for (const char* wrong :
         {"", "nonsense", "127.0.0.1", "127.0.0.1:99999", "h:x", "http://h:80", "unix:"}) {
      EXPECT_THAT(refusal(flag, wrong), AllOf(HasSubstr(flag), HasSubstr("write HOST:PORT")))
          << wrong;
    }
    const bool is_grpc = std::string(flag) == "--grpc-address";
    EXPECT_EQ(Parse({"--model-path", "m", flag, "none"}).exit_code.has_value(), is_grpc) << flag;
    EXPECT_FALSE(Parse({"--model-path", "m", flag, "[::1]:0"}).exit_code.has_value()) << flag;
  }
  for (const char* address : {"unix:/tmp/s", "unix-abstract:s"}) {
    EXPECT_FALSE(Parse({"--model-path", "m", "--grpc-address", address}).exit_code.has_value());
  }
  for (const char* wrong : {"not an endpoint", "http://h:4317", "h:0", "h", ":4317"}) {
    EXPECT_THAT(refusal("--otlp-endpoint", wrong),
                AllOf(HasSubstr("--otlp-endpoint"), HasSubstr("write HOST:PORT")))
        << wrong;
  }
  EXPECT_EQ(Parse({"--model-path", "m", "--otlp-endpoint", "h:4317"}).flags.otlp_endpoint,
            "h:4317");
  EXPECT_THAT(refusal("--trace-rate", "nan"),
              AllOf(HasSubstr("--trace-rate"), HasSubstr("'nan' is not a number from 0 to 1")));
  EXPECT_THAT(
      refusal("--token-tables", "nan"),
      AllOf(HasSubstr("--token-tables"), HasSubstr("'nan' is not a number from 0 to 1000")));
  EXPECT_THAT(refusal("--max-model-bytes", "-1"),
              AllOf(HasSubstr("--max-model-bytes"), HasSubstr("not in range 0 to 11258999")));
  EXPECT_THAT(refusal("--ports-file", "/dev/null"),
              AllOf(HasSubstr("--ports-file"), HasSubstr("'/dev/null' is not a regular file")));
  std::filesystem::create_symlink(Write(""), folder_ + "/link");
  EXPECT_THAT(refusal("--ports-file", (folder_ + "/link").c_str()), HasSubstr("/link'"));
  EXPECT_FALSE(
      Parse({"--model-path", "m", "--ports-file", Write("1").c_str()}).exit_code.has_value());
}

TEST_F(SettingsFileTest, AStreamHasAThread) {
  EXPECT_THAT(Refusal({"--model-path", "m", "--inference-streams", "4", "--threads", "2"}),
              AllOf(HasSubstr("--inference-streams: 4"), HasSubstr("--threads says 2")));
  EXPECT_THAT(Refusal({"--model-path", "m", "--inference-streams", "1024"}),
              HasSubstr("--threads has all CPUs, "));
  for (const char* const fits : {"0", "2"}) {
    EXPECT_FALSE(Parse({"--model-path", "m", "--inference-streams", fits, "--threads", "2"})
                     .exit_code.has_value());
  }
}

TEST_F(SettingsFileTest, TheProcessKeepsToAMemoryNode) {
  EXPECT_EQ(Parse({"--model-path", "m"}).flags.numa, "off");
  EXPECT_THAT(Refusal({"--model-path", "m", "--numa", "both"}),
              HasSubstr("--numa: 'both' is not off, auto or the number of a memory node"));
  EXPECT_THAT(Refusal({"--model-path", "m", "--numa", "1023"}),
              HasSubstr("--numa: memory node '1023' has no CPU that this process may use; nodes "
                        "with some: 0"));
  // The calling thread is bound.
  std::thread([] {
    const ParsedFlags parsed = Parse({"--model-path", "m", "--numa", "auto"});
    EXPECT_FALSE(parsed.exit_code.has_value());
    EXPECT_EQ(parsed.flags.numa, "auto");
    EXPECT_EQ(BoundMemoryBytes() > 0, parsed.memory_bound.ok()) << parsed.memory_bound;
  }).join();
  EXPECT_EQ(BoundMemoryBytes(), 0);
}

// The bounds of a histogram contain commas.
TEST_F(SettingsFileTest, BucketsFromEverySource) {
  constexpr char kSteps[] = "beamwright_step_duration_seconds";
  constexpr char kLoadSeconds[] = "beamwright_model_load_seconds";
  const std::string two = std::string(kSteps) + "=1,2;" + kLoadSeconds + "=3";
  std::string file = Write("metrics-buckets = [\"" + std::string(kSteps) + "=1,2\", \"" +
                           kLoadSeconds + "=3\"]\nmodel-path = \"m\"\n");
  setenv("BEAMWRIGHT_METRICS_BUCKETS", two.c_str(), 1);
  const ParsedFlags environment = Parse({"--model-path", "m"});
  unsetenv("BEAMWRIGHT_METRICS_BUCKETS");
  for (const ParsedFlags& parsed :
       {environment, Parse({"--config", file.c_str()}),
        Parse({"--model-path", "m", "--metrics-buckets", (kSteps + std::string("=1,2")).c_str(),
               "--metrics-buckets", (kLoadSeconds + std::string("=3")).c_str()})}) {
    ASSERT_FALSE(parsed.exit_code.has_value());
    EXPECT_THAT(parsed.flags.buckets.Of(kSteps), ElementsAre(1, 2));
    EXPECT_THAT(parsed.flags.buckets.Of(kLoadSeconds), ElementsAre(3));
  }
  EXPECT_THAT(Refusal({"--model-path", "m", "--metrics-buckets", "nothing=1"}),
              AllOf(HasSubstr("--metrics-buckets"), HasSubstr("'nothing' is not a histogram")));
  file = Write("metrics-buckets = \"" + std::string(kSteps) + "=2,1\"\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}),
              AllOf(HasSubstr("file '" + file + "'"), HasSubstr("bounds ascend")));
}

TEST_F(SettingsFileTest, WhatIsPrintedIsAFileThatSetsTheSame) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--model-path", "a \"b\"", "--model-path", "c\\d", "--ports-file", "e\\f \"g\"",
                   "--max-rows", "77", "--drain-delay", "90s", "--print-config"})
                .exit_code,
            0);
  const std::string file = Write(::testing::internal::GetCapturedStdout());
  const ParsedFlags parsed = Parse({"--config", file.c_str()});
  ASSERT_FALSE(parsed.exit_code.has_value());
  EXPECT_THAT(parsed.flags.models.models, ElementsAre("a \"b\"", "c\\d"));
  EXPECT_EQ(parsed.flags.ports_file, "e\\f \"g\"");
  EXPECT_EQ(parsed.flags.engine.max_rows, 77);
  EXPECT_EQ(parsed.flags.drain_delay, absl::Seconds(90));
  EXPECT_EQ(parsed.flags.drain_timeout, Flags().drain_timeout);
  EXPECT_EQ(parsed.flags.grpc_address, Flags().grpc_address);
}

TEST_F(SettingsFileTest, WhatIsGoneIsPassedOverWhereItWasOff) {
  std::string file = Write("model-path = \"m\"\nchannelz-address = \"none\"\n");
  EXPECT_FALSE(Parse({"--config", file.c_str()}).exit_code.has_value());
  file = Write("model-path = \"m\"\nchannelz-address = \"127.0.0.1:9\"\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}),
              AllOf(HasSubstr("the setting 'channelz-address' is gone"), HasSubstr("metrics")));
  file = Write("model-path = \"m\"\nport-file = \"\"\nhttp-port-file = \"\"\n");
  EXPECT_FALSE(Parse({"--config", file.c_str()}).exit_code.has_value());
  file = Write("model-path = \"m\"\nhttp-port-file = \"p\"\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}),
              AllOf(HasSubstr("the setting 'http-port-file' is gone"), HasSubstr("'ports-file'")));
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

TEST(FlagsTest, ThePortBasePlacesListenersThatNoSettingPlaces) {
  const Flags flags =
      Parse({"--model-path", "m", "--port-base", "9000", "--metrics-address", "m:1"}).flags;
  EXPECT_EQ(flags.http_address, "127.0.0.1:9000");
  EXPECT_EQ(flags.grpc_address, "127.0.0.1:9001");
  EXPECT_EQ(flags.metrics_address, "m:1");
  EXPECT_EQ(flags.admin_address, "127.0.0.1:9003");
  EXPECT_EQ(flags.websocket_address, "none");
  for (const char* bad : {"0", "65533", "x"}) {
    EXPECT_EQ(Parse({"--model-path", "m", "--port-base", bad}).exit_code, 2) << bad;
  }
}

TEST_F(SettingsFileTest, AFlagThatDoesNotExistIsNamedWithTheOneThatWasMeant) {
  EXPECT_THAT(Refusal({"--grpc-adress", "x:1", "--model-path", "m"}),
              HasSubstr("there is no flag --grpc-adress; did you mean --grpc-address?"));
  EXPECT_THAT(Refusal({"--model-path", "m", "stray"}), HasSubstr("'stray' is no flag"));
  const std::string file = Write("max-row = 3\n");
  EXPECT_THAT(Refusal({"--config", file.c_str()}),
              HasSubstr("there is no setting 'max-row'; did you mean max-rows?"));
}

TEST(FlagsTest, HelpAndVersionEndWell) {
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_EQ(Parse({"--version"}).exit_code, 0);
  EXPECT_FALSE(Parse({"--version"}).version_json);
  for (const auto& arguments : {std::vector<const char*>{"--version", "--json"},
                                std::vector<const char*>{"--json", "--version"}}) {
    EXPECT_EQ(Parse(arguments).exit_code, 0);
    EXPECT_TRUE(Parse(arguments).version_json);
  }
  EXPECT_EQ(Parse({"--model-path", "m", "--json"}).exit_code, 2);
  EXPECT_EQ(Parse({}).exit_code, 2);
}

}  // namespace
}  // namespace beamwright::serving
