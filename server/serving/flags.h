// The settings of beamwright-server. Each is a flag (--max-rows), an environment variable
// (BEAMWRIGHT_MAX_ROWS) and a key of the file that --config names (max-rows); the command line goes
// before the environment, and the environment before the file.
#ifndef BEAMWRIGHT_SERVER_SERVING_FLAGS_H_
#define BEAMWRIGHT_SERVER_SERVING_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "include/beamwright/engine.h"
#include "server/access/guard.h"
#include "server/serving/metrics.h"
#include "server/serving/model_registry.h"
#include "server/serving/server_threads.h"

namespace beamwright::serving {

struct Flags {
  ModelPaths models;  // at least one path
  // Where to listen, HOST:PORT; HTTP and metrics may be "none". By default on loopback, because by
  // default there are neither TLS nor tokens.
  std::string grpc_address = "127.0.0.1:8001";
  std::string http_address = "127.0.0.1:8000";
  std::string metrics_address = "127.0.0.1:8002";
  // For operators; "none" turns it off.
  std::string admin_address = "127.0.0.1:8003";
  // The port of HTTP; gRPC, metrics and operators have the three after it. ParseFlags has put them
  // into the addresses above that no setting names.
  int port_base = 8000;
  int grpc_max_metadata_bytes = 16 << 10;
  // Whether gRPC describes its services. Not set: unless there is a token file.
  std::optional<bool> reflection;
  access::GuardOptions guard;
  int grpc_max_receive_bytes = 16 << 20;
  int grpc_max_concurrent_streams = 256;
  int grpc_max_connections = 4096;
  int grpc_max_connections_per_client = 0;  // 0: as many as there may be
  int http_max_body_bytes = 4 << 20;
  int http_threads = 64;
  std::string websocket_address = "none";
  int websocket_max_connections = 4096;
  std::string websocket_model;  // empty: the only one that hears sound
  absl::Duration http_timeout = absl::Seconds(60);
  // A stream of which nothing is heard for so long ends; zero: none does.
  absl::Duration stream_idle_timeout = StreamWatch::kDefaultIdle;
  std::vector<std::string> http_cors_origins;
  bool page = true;
  // What changes which models are served: "none" nothing, "explicit" clients, "poll" the folders,
  // "on-demand" the folders, and calls what is in memory of them.
  std::string model_control = "none";
  absl::Duration repository_poll_interval = absl::Seconds(15);
  LoadOptions load;
  // Versions are warmed up before they serve: load.warm_up_rows is then engine.max_rows.
  bool warm_up = true;
  // The memory node (NUMA) that the process keeps to: "off" (all that it may use), "auto" or a
  // number (ops/base/memory.h).
  std::string numa = "off";
  engine::EngineOptions engine = {.num_streams = engine::EngineOptions::kStreamsAsWorkIs};
  // Bytes for what runs. 0: a quarter of the memory that there is.
  int64_t max_state_bytes = 0;
  std::string state_key_file;  // empty: the engine draws EngineOptions::state_key
  // Bytes that listeners hold for callers (MemoryAccount). In the flags 0: a quarter of the memory
  // that there is, which ParseFlags puts here; afterwards 0 if that is unknown: no limit.
  int64_t max_held_bytes = 0;
  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(30);
  // For the models to load; zero: as long as it takes.
  absl::Duration startup_timeout = absl::ZeroDuration();
  // An engine whose turn takes longer than this hangs.
  absl::Duration liveness_timeout = absl::Minutes(2);
  std::string log_level = "info";
  std::string log_format = "text";  // or "json"
  // A line for one call in N; 0: none.
  int access_log_sample = 0;
  // Where spans are sent, HOST:PORT of an OpenTelemetry collector; empty: nowhere.
  std::string otlp_endpoint;
  // The share of calls that are traced although their client does not trace them.
  double trace_rate = 0;
  bool load_reports = true;
  // Histograms whose bounds are not the defaults, NAME=B1,B2,... each; `buckets` has them.
  std::vector<std::string> metrics_buckets;
  Buckets buckets;
  // File to write the ports to; empty: none.
  std::string ports_file;
  // End after looking at the settings.
  bool check_config = false;
  bool print_config = false;
  bool json = false;  // with --version alone
};

struct ParsedFlags {
  Flags flags;
  // --version --json: to be printed instead of serving.
  bool version_json = false;
  // Set if the program is to end at once: 0 after --help, --version or --print-config, 2 after a
  // wrong setting; what there is to say has been printed.
  std::optional<int> exit_code;
  // Why memory may come from other nodes than the one of --numa, if the system says so.
  absl::Status memory_bound;
};

// Binds the calling thread, and so those that it will start, to the node of --numa: what 0 of other
// settings means follows from the CPUs and the memory there.
ParsedFlags ParseFlags(int argc, const char* const* argv);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_FLAGS_H_
