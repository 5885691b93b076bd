// Makes the gRPC channels of a client from its options.
//
// 1. Validate checks the address and the numbers, before gRPC sees them: its errors would come
//    later, with a call, and say less. URLs of HTTP are recognised, since the ports of HTTP and
//    gRPC are easily confused.
// 2. MakeCredentials: none, or TLS with files for the authority and the client's certificate.
//    ReadAuthorization reads the bearer token, which is refused over a network without TLS.
// 3. Arguments: keepalive, the reconnection time, and the service config with round-robin and
//    retries (see kServiceConfig).
// 4. MakeChannels makes `connections` channels. Each has a separate TCP connection, since gRPC
//    would otherwise share one among channels with equal arguments.
#include "client/channels.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::client {

namespace {

constexpr absl::string_view kDefaultPort = "8001";
constexpr int kMaxConnections = 64;
// gRPC itself uses no more.
constexpr int kMaxAttempts = 5;

// Decoding and asking about models are idempotent, so Unavailable may be retried; the throttle
// keeps retries from drowning a server in trouble. Its tokens are for all calls that a server that
// dies may have in flight: with half of them gone there are no retries. Health is left out: it asks
// how things are now. round_robin: the default would send everything to the first address of a
// name. Streams are left out: with a retry policy, a stream whose server dies may wait for ever,
// beyond its deadline (gRPC 1.51 to 1.81); the client tries those again that did not begin.
constexpr absl::string_view kServiceConfig = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "retryThrottling": {"maxTokens": 500, "tokenRatio": 0.1},
  "methodConfig": [{
    "name": [{"service": "beamwright.v1.DecodeService"}, {"service": "beamwright.v1.ModelService"},
             {"service": "beamwright.v1.TranslateService"}],
    "retryPolicy": {
      "maxAttempts": $0, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }, {
    "name": [{"service": "beamwright.v1.DecodeService", "method": "StreamDecode"},
             {"service": "beamwright.v1.TranslateService", "method": "StreamTranslate"}]
  }]
})";
constexpr absl::string_view kServiceConfigWithoutRetries = R"({
  "loadBalancingConfig": [{"round_robin": {}}]
})";

// Checks the port of "host:port"; any other target is left to gRPC.
absl::Status CheckPort(const std::string& address) {
  constexpr absl::string_view kSchemes[] = {"unix", "unix-abstract", "dns",
                                            "ipv4", "ipv6",          "vsock"};
  const std::string target = WithDefaultPort(address);
  const size_t colon = target.rfind(':');
  const std::string host = target.substr(0, colon);
  const bool is_uri =
      absl::c_linear_search(kSchemes, host) ||
      (!absl::StartsWith(host, "[") && host.find_first_of(":/") != std::string::npos);
  int port = 0;
  if (is_uri || (absl::SimpleAtoi(target.substr(colon + 1), &port) && port > 0 && port <= 65535)) {
    return absl::OkStatus();
  }
  return Invalid("address \"", address, "\" has no port from 1 to 65535; expected host:port");
}

absl::Status Validate(const ClientOptions& options) {
  if (options.address.empty()) {
    return Invalid("address is empty; expected host:port");
  }
  if (std::any_of(options.address.begin(), options.address.end(),
                  [](char c) { return absl::ascii_isspace(c) || absl::ascii_iscntrl(c); })) {
    return Invalid("address \"", options.address, "\" contains white space; expected host:port");
  }
  if (absl::StartsWithIgnoreCase(options.address, "http://") ||
      absl::StartsWithIgnoreCase(options.address, "https://")) {
    return Invalid("address \"", options.address,
                   "\" is a URL; expected host:port, with the port of gRPC (8001)");
  }
  BW_RETURN_IF_ERROR(CheckPort(options.address));
  if (options.connections < 1 || options.connections > kMaxConnections) {
    return Invalid("connections is ", options.connections, "; 1 to ", kMaxConnections,
                   " are allowed");
  }
  if (options.max_receive_bytes < 1) {
    return Invalid("max_receive_bytes is ", options.max_receive_bytes, "; at least 1 is allowed");
  }
  if (options.max_attempts < 1 || options.max_attempts > kMaxAttempts) {
    return Invalid("max_attempts is ", options.max_attempts, "; 1 to ", kMaxAttempts,
                   " are allowed");
  }
  if (options.keepalive < absl::Seconds(2) || options.keepalive > absl::Hours(24)) {
    return Invalid("keepalive is ", absl::FormatDuration(options.keepalive),
                   "; 2s to 24h are allowed");
  }
  google::protobuf::Struct config;
  const auto read = google::protobuf::util::JsonStringToMessage(options.service_config, &config);
  if (!options.service_config.empty() && !read.ok()) {
    return Invalid("service_config is not a JSON object: ", std::string(read.message()));
  }
  return absl::OkStatus();
}

grpc::ChannelArguments Arguments(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix("beamwright-cpp");
  arguments.SetMaxReceiveMessageSize(options.max_receive_bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.keepalive)));
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(std::min(options.keepalive, absl::Seconds(20)))));
  if (!options.security.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.security.server_name);
  }
  // A server that was down is found again quickly: gRPC's own waits grow to two minutes.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  // Channels with equal arguments would share their connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // No program reads a client's channelz data.
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  if (!options.service_config.empty()) {
    // gRPC's own name for it: `perAttemptRecvTimeout` is read only with this.
    arguments.SetInt(GRPC_ARG_EXPERIMENTAL_ENABLE_HEDGING, 1);
    arguments.SetServiceConfigJSON(options.service_config);
  } else if (options.max_attempts > 1) {
    arguments.SetServiceConfigJSON(absl::Substitute(kServiceConfig, options.max_attempts));
  } else {
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetServiceConfigJSON(std::string(kServiceConfigWithoutRetries));
  }
  return arguments;
}

}  // namespace

std::string WithDefaultPort(absl::string_view address) {
  const bool has_port = absl::StartsWith(address, "[") ? !absl::EndsWith(address, "]")
                                                       : absl::StrContains(address, ":");
  return has_port ? std::string(address) : absl::StrCat(address, ":", kDefaultPort);
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ClientOptions& options) {
  BW_RETURN_IF_ERROR(Validate(options));
  BW_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                      MakeCredentials(options.security));
  const grpc::ChannelArguments arguments = Arguments(options);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < options.connections; ++i) {
    channels.push_back(
        grpc::CreateCustomChannel(WithDefaultPort(options.address), credentials, arguments));
  }
  return channels;
}

namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

bool UsesTls(const SecurityOptions& options) {
  return options.tls || !options.ca_file.empty() || !options.cert_file.empty();
}

bool IsLocal(absl::string_view address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]") || address == "localhost" ||
         absl::StartsWith(address, "localhost:");
}

absl::Status Read(const std::string& path, std::string& content) {
  if (!path.empty()) {
    BW_ASSIGN_OR_RETURN(content, ReadFile(path, kMaxFileBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const SecurityOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Invalid("cert_file and key_file: give both or neither");
  }
  if (!UsesTls(options)) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  BW_RETURN_IF_ERROR(Read(options.ca_file, ssl.pem_root_certs));
  BW_RETURN_IF_ERROR(Read(options.cert_file, ssl.pem_cert_chain));
  BW_RETURN_IF_ERROR(Read(options.key_file, ssl.pem_private_key));
  return grpc::SslCredentials(ssl);
}

absl::StatusOr<std::string> ReadAuthorization(const ClientOptions& options) {
  if (options.security.token_file.empty()) {
    return std::string();
  }
  if (!UsesTls(options.security) && !IsLocal(options.address)) {
    return Invalid("token_file: a token is not sent over a network in clear text; use TLS");
  }
  std::string token;
  BW_RETURN_IF_ERROR(Read(options.security.token_file, token));
  const absl::string_view bare = absl::StripAsciiWhitespace(token);
  for (const char c : bare) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return Invalid("token_file: '", options.security.token_file,
                     "' holds more than one word of printable ASCII");
    }
  }
  if (bare.empty()) {
    return Invalid("token_file: '", options.security.token_file, "' is empty");
  }
  return absl::StrCat("Bearer ", bare);
}

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  constexpr absl::string_view kUnspecified = "UNSPECIFIED";
  absl::string_view prefix = value.type()->value(0)->name();
  absl::string_view name = value.name();
  if (absl::ConsumeSuffix(&prefix, kUnspecified)) {
    absl::ConsumePrefix(&name, prefix);
  }
  return name == kUnspecified ? "" : absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", "-"}}));
}

}  // namespace beamwright::client
