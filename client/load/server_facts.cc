// What a load test asks and computes about the server and the client's machine:
//
// 1. AskServerName: the server's name and version, over the protocol that is measured.
// 2. ScrapeMetrics, ParseMetrics: the server's metrics in Prometheus' text format, before and after
//    the run. MetricsBetween gives what counters gained, and the last values of gauges.
// 3. ClientBottleneck: whether the run says more about this machine than about the server: calls
//    that were due but never sent, calls that were sent late, or CPUs that were all in use. Such a
//    run is called invalid, as its latencies are those of the client.
//
// An example of metrics, and what becomes of two readings:
//
//   # TYPE requests_total counter           # TYPE queue gauge
//   requests_total{code="OK"} 100           queue 3          before
//   requests_total{code="OK"} 140           queue 1          after
//   requests_total{code="OK"}: 40, queue: 1
#include "client/load/server_facts.h"

#include <grpcpp/client_context.h>
#include <httplib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/channels.h"
#include "client/load/load.h"
#include "include/beamwright/client.h"
#include "inference/grpc_service.grpc.pb.h"
#include "ops/base/rapidjson.h"
#include "ops/base/status.h"

namespace beamwright::client {

namespace {

// Bound of an answer, whatever server it is.
constexpr size_t kMaxMetricsBytes = 16 << 20;

absl::StatusOr<std::string> Get(httplib::Client& client, const std::string& path,
                                const httplib::Headers& headers, absl::Duration timeout) {
  const auto seconds = std::max<int64_t>(1, absl::ToInt64Seconds(timeout));
  client.set_connection_timeout(seconds);
  client.set_read_timeout(seconds);
  std::string body;
  const auto result = client.Get(path, headers, [&](const char* data, size_t size) {
    body.append(data, size);
    return body.size() <= kMaxMetricsBytes;
  });
  if (!result) {
    return absl::UnavailableError(
        absl::StrCat("no answer to GET ", path, ": ", httplib::to_string(result.error())));
  }
  if (result->status != 200) {
    return absl::FailedPreconditionError(absl::StrCat("GET ", path, ": HTTP ", result->status));
  }
  return body;
}

absl::StatusOr<ServerName> AskOverHttp(const ClientOptions& options, absl::Duration timeout) {
  BW_ASSIGN_OR_RETURN(const HttpAddress address, HttpAddressOf(options));
  httplib::Client client(address.url, address.security.cert_file, address.security.key_file);
  if (!address.security.ca_file.empty()) {
    client.set_ca_cert_path(address.security.ca_file);
  }
  httplib::Headers headers;
  if (!address.authorization.empty()) {
    headers.emplace("Authorization", address.authorization);
  }
  BW_ASSIGN_OR_RETURN(const std::string body, Get(client, "/v2", headers, timeout));
  rapidjson::Document json;
  json.Parse(body.data(), body.size());
  if (json.HasParseError() || !json.IsObject()) {
    return absl::InternalError("GET /v2: the answer is not a JSON object");
  }
  const auto text = [&](const char* name) -> std::string {
    const auto it = json.FindMember(name);
    return it != json.MemberEnd() && it->value.IsString() ? it->value.GetString() : "";
  };
  return ServerName{text("name"), text("version")};
}

// The type of a sample's family by the comments before it: "counter", "gauge" and so on.
//
// A histogram's samples have the family's name with a suffix: latency_sum belongs to "# TYPE
// latency histogram".
std::string TypeOf(const std::map<std::string, std::string>& types, const std::string& name) {
  for (const absl::string_view suffix : {"", "_bucket", "_sum", "_count"}) {
    const auto it = types.find(std::string(absl::StripSuffix(name, suffix)));
    if (absl::EndsWith(name, suffix) && it != types.end()) {
      return it->second;
    }
  }
  return "untyped";
}

// Where the labels of a line end: quotes may hold braces.
size_t EndOfLabels(absl::string_view line, size_t begin) {
  bool quoted = false;
  for (size_t i = begin; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == '}' && !quoted) {
      return i + 1;
    }
  }
  return absl::string_view::npos;
}

}  // namespace

absl::StatusOr<ServerName> AskServerName(Protocol protocol, const ClientOptions& options,
                                         absl::Duration timeout) {
  if (protocol == Protocol::kRest || protocol == Protocol::kInferHttp) {
    return AskOverHttp(options, timeout);
  }
  ClientOptions one = options;
  one.connections = 1;
  BW_ASSIGN_OR_RETURN(const auto channels, MakeChannels(one));
  BW_ASSIGN_OR_RETURN(const std::string authorization, ReadAuthorization(options));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  if (!authorization.empty()) {
    context.AddMetadata("authorization", authorization);
  }
  inference::ServerMetadataResponse response;
  BW_RETURN_IF_ERROR(FromGrpcStatus(
      inference::GRPCInferenceService::NewStub(channels[0])
          ->ServerMetadata(&context, inference::ServerMetadataRequest(), &response)));
  return ServerName{response.name(), response.version()};
}

absl::StatusOr<Metrics> ParseMetrics(absl::string_view text) {
  Metrics metrics;
  std::map<std::string, std::string> types;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, "#")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() == 4 && words[1] == "TYPE") {
        types[words[2]] = words[3];
      }
      continue;
    }
    if (line.empty()) {
      continue;
    }
    size_t end = line.find_first_of("{ \t");
    const std::string name(line.substr(0, end));
    if (end != absl::string_view::npos && line[end] == '{') {
      end = EndOfLabels(line, end);
    }
    double value = 0;
    const absl::string_view rest =
        end == absl::string_view::npos ? "" : absl::StripLeadingAsciiWhitespace(line.substr(end));
    if (!absl::SimpleAtod(rest.substr(0, rest.find_first_of(" \t")), &value)) {
      return Invalid("\"", line.substr(0, 100), "\" is not a sample of Prometheus' text format");
    }
    const std::string type = TypeOf(types, name);
    (type == "gauge" || type == "untyped" ? metrics.gauges
                                          : metrics.counters)[std::string(line.substr(0, end))] =
        value;
  }
  return metrics;
}

absl::StatusOr<Metrics> ScrapeMetrics(const std::string& url, absl::Duration timeout) {
  absl::string_view rest = url;
  const bool tls = absl::ConsumePrefix(&rest, "https://");
  absl::ConsumePrefix(&rest, "http://");
  const size_t slash = rest.find('/');
  const std::string path =
      slash == absl::string_view::npos ? "/metrics" : std::string(rest.substr(slash));
  httplib::Client client(absl::StrCat(tls ? "https://" : "http://", rest.substr(0, slash)));
  if (!client.is_valid()) {
    return Invalid("\"", url,
                   "\" is not an address such as localhost:8002 or "
                   "http://localhost:8002/metrics");
  }
  BW_ASSIGN_OR_RETURN(const std::string body, Get(client, path, {}, timeout));
  return ParseMetrics(body);
}

// Counters that did not grow, and buckets of histograms, would only make the report long.
std::map<std::string, double> MetricsBetween(const Metrics& before, const Metrics& after) {
  std::map<std::string, double> between = after.gauges;
  for (const auto& [name, value] : after.counters) {
    const auto it = before.counters.find(name);
    const double gained = value - (it == before.counters.end() ? 0 : it->second);
    if (gained != 0 && !absl::StrContains(name, "_bucket{")) {
      between[name] = gained;
    }
  }
  return between;
}

// When a run says more about the machine that sent the calls than about the server.

namespace {

// Calls that are a little late change no figure: latency counts from when they were due.
constexpr absl::Duration kLate = absl::Milliseconds(1);
constexpr double kLateShare = 0.1;      // of the 99th percentile of latency
constexpr double kSkippedShare = 1e-3;  // of the calls that were due
constexpr double kCpuShare = 0.8;       // of all CPUs

}  // namespace

std::string ClientBottleneck(const LoadReport& report, int num_cpus) {
  const int64_t sent = report.num_calls + NumFailed(report);
  const auto skipped = static_cast<double>(report.num_skipped);
  if (skipped > kSkippedShare * (skipped + static_cast<double>(sent))) {
    return absl::StrCat(
        report.num_skipped,
        " calls that were due were never sent; raise --concurrency or lower --rate");
  }
  if (report.lag.p99 > kLate && report.lag.p99 > kLateShare * report.latency.p99) {
    return absl::StrFormat(
        "a hundredth of the calls was sent %.1f ms late or more; this machine cannot send at that "
        "rate",
        absl::ToDoubleMilliseconds(report.lag.p99));
  }
  const double cpus = ClientCpus(report);
  return cpus > kCpuShare * num_cpus
             ? absl::StrFormat("the client itself used %.1f of this machine's %d CPUs", cpus,
                               num_cpus)
             : "";
}

}  // namespace beamwright::client
