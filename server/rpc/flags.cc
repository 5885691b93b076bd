#include "server/rpc/flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace beamwright::rpc {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxRows = 65536;
constexpr int kMaxQueue = 1'000'000;

// "30", "30s", "1m30s", "500ms".
bool ParseTimeout(const std::string& text, absl::Duration& timeout) {
  double seconds = 0;
  const bool bare = absl::SimpleAtod(text, &seconds);
  if (bare) {
    timeout = absl::Seconds(seconds);
  }
  return (bare || absl::ParseDuration(text, &timeout)) && timeout >= absl::ZeroDuration() &&
         timeout <= absl::Hours(24);
}

std::string CheckTimeout(const std::string& text) {
  absl::Duration timeout;
  return ParseTimeout(text, timeout)
             ? ""
             : absl::StrCat("'", text, "' is no time from 0 to 24h; write 30s, 2m or 500ms");
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? "is empty" : ""; }

// A flag takes one value; the word after it is not silently one more.
void AddModelFlags(CLI::App& app, Flags& flags) {
  app.add_option("--model-repository", flags.models.repositories,
                 "Folder of models, <model>/<version>/; may be repeated (environment: "
                 "separated by colons)")
      ->type_name("DIR")
      ->envname("BEAMWRIGHT_MODEL_REPOSITORY")
      ->delimiter(':')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckNotEmpty);
  app.add_option("--model-path", flags.models.models,
                 "Folder of one model (versions in it) or of one bundle; may be repeated")
      ->type_name("DIR")
      ->envname("BEAMWRIGHT_MODEL_PATH")
      ->delimiter(':')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CheckNotEmpty);
}

void AddServerFlags(CLI::App& app, Flags& flags, std::string& drain_timeout) {
  app.add_option("--grpc-address", flags.grpc_address,
                 "Where gRPC listens; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->envname("BEAMWRIGHT_GRPC_ADDRESS")
      ->check(CheckNotEmpty)
      ->capture_default_str();
  app.add_option("--port-file", flags.port_file, "File to write the gRPC port to when serving")
      ->type_name("FILE")
      ->envname("BEAMWRIGHT_PORT_FILE");
  app.add_option("--threads", flags.engine.num_threads,
                 "Compute threads; 0: as many as CPU quota and affinity allow")
      ->envname("BEAMWRIGHT_THREADS")
      ->check(CLI::Range(0, kMaxThreads))
      ->capture_default_str();
  app.add_option("--max-rows", flags.engine.max_rows,
                 "Most hypotheses stepped together; a request takes as many as its beam is wide")
      ->envname("BEAMWRIGHT_MAX_ROWS")
      ->check(CLI::Range(1, kMaxRows))
      ->capture_default_str();
  app.add_option("--max-queue", flags.engine.max_queue,
                 "Most requests waiting; one more is refused with RESOURCE_EXHAUSTED")
      ->envname("BEAMWRIGHT_MAX_QUEUE")
      ->check(CLI::Range(0, kMaxQueue))
      ->capture_default_str();
  app.add_option("--drain-timeout", drain_timeout,
                 "After SIGTERM: how long running requests may take to finish")
      ->type_name("TIME")
      ->envname("BEAMWRIGHT_DRAIN_TIMEOUT")
      ->check(CheckTimeout)
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "Least severe messages to log")
      ->envname("BEAMWRIGHT_LOG_LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

}  // namespace

ParsedFlags ParseFlags(int argc, const char* const* argv) {
  ParsedFlags parsed;
  std::string drain_timeout = "30s";
  CLI::App app("Beam-search decoding of recurrent sequence models, over gRPC.",
               "beamwright-server");
  app.set_version_flag("--version", std::string("beamwright-server " BEAMWRIGHT_VERSION));
  AddModelFlags(app, parsed.flags);
  AddServerFlags(app, parsed.flags, drain_timeout);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    parsed.exit_code = app.exit(success);  // --help, --version
    return parsed;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "beamwright-server: %s\nbeamwright-server --help lists all flags.\n",
                 error.what());
    parsed.exit_code = 2;
    return parsed;
  }
  if (parsed.flags.models.repositories.empty() && parsed.flags.models.models.empty()) {
    std::fprintf(stderr,
                 "beamwright-server: no model: give --model-repository DIR or --model-path DIR\n"
                 "beamwright-server --help lists all flags.\n");
    parsed.exit_code = 2;
  }
  ParseTimeout(drain_timeout, parsed.flags.drain_timeout);
  return parsed;
}

}  // namespace beamwright::rpc
