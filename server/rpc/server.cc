// The gRPC server: builds it, with settings for hostile clients, and ends it.
//
// 1. Start: LimitEarly lowers limits that gRPC applies before a client has acknowledged SETTINGS;
//    the Acceptor listens, so that connections are counted before gRPC has them; the builder gets
//    its limits, the services are registered, and the acceptor hands sockets to gRPC one by one.
//    Last, the ConnectionWatch starts.
// 2. TLS: FetchedCredentials gives each new connection the certificates that were read last, so
//    that they can be replaced while the server runs.
// 3. Health of models is kept up to date by Availability (SetHealth).
// 4. Stop, in this order: health, watch, acceptor; then gRPC sends GOAWAY and waits for open calls.
//    gRPC leaks sockets that it gets after its shutdown, so the acceptor must have ended before.
//
// Each channel argument differs from gRPC's default for a reason that its comment gives.
#include "server/rpc/server.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ops/base/status.h"
#include "server/access/guard.h"
#include "server/rpc/grpc_limits.h"
#include "server/serving/settings.h"

namespace beamwright::rpc {
namespace {

// The gRPC listener's side of TLS.

// gRPC's C++ API takes certificates once, or reads files itself; only its C API asks for them at
// each connection.
class FetchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchedCredentials(const access::TlsContext& tls)
      : tls_(tls),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                tls.content()->client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                Fetch, this))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }
  FetchedCredentials(const FetchedCredentials&) = delete;
  FetchedCredentials& operator=(const FetchedCredentials&) = delete;

  // Callers are checked by the gate.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC holds the listener's lock meanwhile.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<FetchedCredentials*>(self);
    const std::shared_ptr<const access::TlsContext::Content> content = credentials.tls_.content();
    if (content == credentials.given_) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const grpc_ssl_pem_key_cert_pair pair = {content->key.c_str(), content->cert.c_str()};
    // It insists on authorities even where no client is asked for a certificate; any do.
    const std::string& roots = content->client_ca.empty() ? content->cert : content->client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    credentials.given_ = content;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const access::TlsContext& tls_;
  std::shared_ptr<const access::TlsContext::Content> given_;
  grpc_server_credentials* const credentials_;
};

// Credentials of one listener; without `tls`, clear text. New connections get the certificates that
// `tls` has read last. (gRPC's own watcher of files takes broken files too, and then refuses all
// clients.) The credentials and `tls` must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const access::TlsContext* tls) {
  if (tls == nullptr) {
    return grpc::InsecureServerCredentials();
  }
  return std::make_shared<FetchedCredentials>(*tls);
}

// Clients may ping a quiet connection this often: those that ping every two seconds notice a server
// that is frozen or cut off within four. gRPC's own limit (5 minutes) would cut them off.
constexpr int kMinPingIntervalMs = 1'500;
// The time for calls that are open when the listener closes.
constexpr std::chrono::milliseconds kLastReplies(500);
// The time for connections to get their GOAWAY.
constexpr absl::Duration kGoAway = absl::Milliseconds(50);

// A client that connects and sends nothing is dropped; gRPC's own limit is two minutes.
constexpr int kHandshakeTimeoutMs = 10'000;

// The size of our trailers, which a client must accept before its limits are known.
constexpr int kTrailerBytes = 8 << 10;

// With more calls than this multiple gRPC closes the connection, and its client reconnects at once.
// The watch resets connections with too many calls earlier, and makes their clients wait.
constexpr int kEarlyStreams = 4;

// The limits of a connection, from its first byte on.
void LimitEarly(const ServerOptions& options) {
  const EarlyLimits limits = {
      static_cast<uint32_t>(std::max(options.max_metadata_bytes, kTrailerBytes) + 1),
      static_cast<uint32_t>(kEarlyStreams * options.max_concurrent_streams + 1)};
  if (const absl::Status status = SetEarlyLimits(limits); !status.ok()) {
    spdlog::warn("a client that does not acknowledge SETTINGS may send 16 MiB of headers: {}",
                 status.ToString());
  }
}

AcceptorOptions OptionsOf(const ServerOptions& options, serving::Core& core, const Gate& gate) {
  AcceptorOptions result;
  result.address = options.address;
  result.max_connections = options.max_connections;
  result.max_connections_per_client = options.max_connections_per_client;
  result.max_files = options.max_files;
  result.calls = &gate.connections();
  result.refused = [&core] {
    core.calls().Refuse(serving::TooManyConnections(),
                        serving::Caller{serving::Method::kGrpcOther});
  };
  return result;
}

// Health of `name`: a model's, or, by "", that of the server and its services.
void SetHealth(HealthService& health, const std::string& name, bool ready,
               const serving::ServingState& state) {
  health.Set(name, ready);
  if (!name.empty()) {
    return;
  }
  health.Set(v1::DecodeService::service_full_name(), ready);
  health.Set(v1::RecognizeService::service_full_name(), ready);
  health.Set(v1::TranslateService::service_full_name(), ready);
  health.Set(inference::GRPCInferenceService::service_full_name(), ready);
  health.Set(v1::ModelService::service_full_name(), state.health().tells);
}

}  // namespace

Server::Server(const ServerOptions& options, const access::Access& access, oip::Service& service)
    : availability_(service.core().availability()),
      gate_(access, service.core(), options.max_receive_bytes),
      decode_(gate_, service.core()),
      recognize_(gate_, service.core()),
      translate_(gate_, service.core()),
      models_(gate_, service.core().models()),
      inference_(gate_, service),
      health_(gate_),
      unknown_(gate_) {}

void Server::Register(bool reflection, grpc::ServerBuilder& builder) {
  builder.RegisterService(&decode_);
  builder.RegisterService(&recognize_);
  builder.RegisterService(&translate_);
  builder.RegisterService(&models_);
  builder.RegisterService(&inference_);
  builder.RegisterService(&health_);
  builder.RegisterCallbackGenericService(&unknown_);
  if (!reflection) {
    return;
  }
  reflection_answers_.emplace(std::vector<const google::protobuf::FileDescriptor*>{
      v1::DecodeRequest::descriptor()->file(), v1::RecognizeRequest::descriptor()->file(),
      v1::TranslateRequest::descriptor()->file(), v1::ModelSummary::descriptor()->file(),
      inference::ModelInferRequest::descriptor()->file(),
      grpc::health::v1::HealthCheckRequest::descriptor()->file(),
      grpc::reflection::v1::ServerReflectionRequest::descriptor()->file(),
      grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()->file()});
  builder.RegisterService(&reflection_.emplace(gate_, *reflection_answers_));
  builder.RegisterService(&reflection_alpha_.emplace(gate_, *reflection_answers_));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const access::Access& access,
                                                      oip::Service& service) {
  LimitEarly(options);
  std::unique_ptr<Server> server(new Server(options, access, service));
  BW_ASSIGN_OR_RETURN(server->acceptor_,
                      Acceptor::Listen(OptionsOf(options, service.core(), server->gate_)));
  server->credentials_ = MakeCredentials(options.tls);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  // Also while no call is open: gRPC's own rule allows a client without calls a ping in two hours,
  // and closes the connection with too_many_pings after the third.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  // gRPC would widen the windows of streams to what the line takes, up to 16 MiB a stream, whether
  // they are read or not. A message that is read gets the window that it needs.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Channelz has no reader here, and costs time in each call.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  // gRPC unpacks a message before it looks at the limit: 200 KB of gzip become 200 MiB.
  // ParseRequest unpacks gzip within the limit, and calls with deflate are UNIMPLEMENTED.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> connections =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          server->credentials_);
  builder.SetContextAllocator(server->gate_.backlog().MakeAllocator());
  server->Register(options.reflection, builder);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::InternalError("gRPC does not start; --log-level debug shows what it says");
  }
  server->one_callback_thread_ = OneCallbackThread::Hold(*server->server_);
  server->address_ =
      server->port() == 0 ? options.address : serving::WithPort(options.address, server->port());
  server->availability_.Observe(
      [&health = server->health_, &state = service.core().state()](
          const std::string& name, bool ready) { SetHealth(health, name, ready, state); });
  server->acceptor_->Start([connections](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    connections->HandleNewConnection(&connection);
  });
  server->watch_ = std::make_unique<ConnectionWatch>(
      *server->server_, *server->acceptor_, server->gate_,
      ClientLimits{options.max_concurrent_streams, options.max_receive_bytes},
      options.memory_limit_bytes);
  return server;
}

Server::~Server() {
  if (server_ != nullptr) {
    availability_.Observe(nullptr);
    watch_ = nullptr;
    one_callback_thread_ = nullptr;
    acceptor_->Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
}

void Server::DropUnread(absl::Duration time) {
  const std::string why = absl::StrCat("an answer was not read for ", absl::FormatDuration(time),
                                       " while the server ends");
  for (const std::string& peer : gate_.unsent().CancelOlderThan(std::chrono::steady_clock::now() -
                                                                absl::ToChronoNanoseconds(time))) {
    acceptor_->CutOffPeer(peer, why);
  }
}

void Server::Stop(const std::function<void()>& closing) {
  availability_.Observe(nullptr);
  watch_ = nullptr;
  one_callback_thread_ = nullptr;
  // Before gRPC shuts down: it leaks sockets that it gets after that.
  acceptor_->Stop();
  // Shutdown sends GOAWAY and then waits for what is open.
  std::thread shutdown(
      [this] { server_->Shutdown(std::chrono::system_clock::now() + kLastReplies); });
  absl::SleepFor(kGoAway);
  closing();
  shutdown.join();
  server_->Wait();
  server_ = nullptr;
}

}  // namespace beamwright::rpc
