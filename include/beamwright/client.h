// The C++ client of a Beamwright server. It hides what every caller would write again: channels
// with sensible settings, retries where they are safe, gRPC statuses as absl::Status, calls in
// flight without a thread each, and long inputs in batches. client/examples/decode_words.cc shows
// it in twenty lines; docs/client.md explains it.
#ifndef BEAMWRIGHT_INCLUDE_BEAMWRIGHT_CLIENT_H_
#define BEAMWRIGHT_INCLUDE_BEAMWRIGHT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "beamwright/v1/source_errors.pb.h"
#include "beamwright/v1/translate.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace beamwright::client {

// How the client knows its server, and the server its client. Files are PEM, read by Connect.
struct SecurityOptions {
  // Speak TLS. Set by itself where one of the files below is given.
  bool tls = false;
  // Whom to believe about the server; empty: those that the system believes.
  std::string ca_file;
  // The client's own certificate and key, for servers that ask for one. Both or neither.
  std::string cert_file;
  std::string key_file;
  // The name that the server's certificate must have; empty: the host of the address.
  std::string server_name;
  // A file with a bearer token, sent with every call: over TLS, or to this machine (localhost,
  // loopback, Unix socket), never over a network in clear text. White space around it is ignored.
  std::string token_file;
};

struct ClientOptions {
  // Where the server listens: "host:port", "host" (port 8001), "[::1]:8001", "unix:/path" or any
  // other gRPC target such as "dns:///host:port". Calls are spread over all addresses of a name.
  std::string address = "localhost:8001";
  // Channels, 1 to 64, each with separate connections; calls take turns. One carries a few
  // thousand calls a second; more of them also pass the server's limit of concurrent streams a
  // connection.
  int connections = 1;
  // Largest answer accepted, in bytes.
  int max_receive_bytes = 64 << 20;
  // Tries of a call that finds the server unavailable, 1 (no retries) to 5. Decoding has no effect
  // but its answer, so trying again is safe; the waits between grow from 50 ms to 1 s.
  int max_attempts = 3;
  // A gRPC service config (JSON) that takes the place of balancing and retries as set here, such as
  // those in deploy/grpc for a fleet; max_attempts then counts for StreamDecode alone.
  // `perAttemptRecvTimeout` of its retry policies is obeyed. Give StreamDecode no retry policy: a
  // stream whose server dies may then wait for ever (a fault of gRPC's).
  std::string service_config;
  // A connection with calls in flight is pinged this often, 2 s to 24 h, so that a dead peer is
  // noticed: it has as long again to answer, 20 s at most.
  absl::Duration keepalive = absl::Seconds(60);
  SecurityOptions security;
};

// The settings of one call besides its request.
struct CallSettings {
  int priority = 0;  // 1 (first) to 3; 0: the server's default
  // Whose call it is, where the server believes its callers that (`trust_header` of its tenant
  // file); empty: who the credentials say.
  std::string tenant;
  // The call is given up after this, as by a user who has gone; unlike a deadline, it is not sent
  // to the server beforehand.
  absl::Duration cancel_after = absl::InfiniteDuration();
};

// Called with each message of a stream, in their order, on the caller's thread or that of the
// callbacks; false ends the call.
using StreamCallback = std::function<bool(const v1::StreamDecodeResponse&)>;

// The same of a recognition.
using RecognizeCallback = std::function<bool(const v1::RecognizeResponse&)>;

using TranslateCallback = std::function<bool(const v1::TranslateResponse&)>;

// Called exactly once for each call, on a thread that all calls share (or in a CallbackLoop): it
// must not block.
using DecodeCallback = std::function<void(absl::StatusOr<v1::DecodeResponse>)>;
// The same of a stream, after its last message.
using StreamEndCallback = std::function<void(absl::Status)>;

// A source that is recognised while it comes, without a separate thread: for callers with many
// sources, or a loop. Client::Recognize is simpler where a thread may wait. Thread-safe. Pieces
// wait, without a limit, for the server to read them.
class RecognizeStream {
 public:
  virtual ~RecognizeStream() = default;

  // The next piece. Nothing happens once the call has ended.
  virtual void Send(v1::RecognizeRequest piece) = 0;
  // The source is complete.
  virtual void Finish() = 0;
  virtual void Cancel() = 0;
};

// Thread-safe: any number of threads may use one Client at the same time.
//
// Errors of calls keep the server's code, message and details (RetryAfter, ErrorsOfSources). A call
// that fails as a whole (unknown model, options out of range, unreachable server, or no source that
// has an answer) is a status here; where other sources have answers, the error of a source is in
// its Result (see ResultStatus). Deadlines travel to the server, which stops working for a call
// that passed its deadline (DeadlineExceeded); absl::InfiniteFuture() is not a deadline.
class Client {
 public:
  // Checks the options and reads their files (InvalidArgument, NotFound) and prepares the channels.
  // The network is first used by the first call: a server that is down makes calls fail with
  // Unavailable, and later ones succeed once it is up.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);

  // Cancels the calls that are outstanding and waits until their callbacks have returned; so it
  // must not run inside one.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<v1::DecodeResponse> Decode(const v1::DecodeRequest& request, absl::Time deadline);

  // Starts the call and returns; `callback` gets the answer. It may start calls itself.
  void DecodeAsync(v1::DecodeRequest request, absl::Time deadline, DecodeCallback callback,
                   const CallSettings& settings = {});

  // As StreamDecode, without waiting, and tried once. Both callbacks must not block.
  void StreamDecodeAsync(v1::StreamDecodeRequest request, absl::Time deadline,
                         StreamCallback on_message, StreamEndCallback on_end,
                         const CallSettings& settings = {});

  // Cancels every call of DecodeAsync and StreamDecodeAsync that is outstanding; their callbacks
  // get Cancelled unless the answer came first.
  void CancelOutstanding();

  // Decodes one source and hands over what is known of it while the search runs; the last message
  // has the answer. Cancelled if the callback ended the call. A stream whose first message has come
  // is not retried.
  absl::Status StreamDecode(const v1::StreamDecodeRequest& request, absl::Time deadline,
                            const StreamCallback& on_message);

  // Recognises a source while it is sent. `next`, called on a separate thread, may wait for the
  // next piece and sets it, or returns false at the end of the source; the last message has the
  // summary. Cancelled if on_message ended the call; then `next` is not called again. The call
  // returns when `next` has.
  absl::Status Recognize(const v1::RecognizeConfig& config, absl::Time deadline,
                         const std::function<bool(v1::RecognizeRequest& piece)>& next,
                         const RecognizeCallback& on_message);

  // The same without a thread for each source, whose pieces are sent as they come
  // (client/async_calls.h). Both callbacks are called on gRPC's threads and must not block;
  // the client must outlive the call.
  std::shared_ptr<RecognizeStream> StartRecognize(
      const v1::RecognizeConfig& config, absl::Time deadline,
      std::pair<std::function<void(const v1::RecognizeResponse&)>, StreamEndCallback> callbacks);

  // Scores given targets, and where the tokens of given targets come from.
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request, absl::Time deadline);
  absl::StatusOr<v1::AlignResponse> Align(const v1::AlignRequest& request, absl::Time deadline);

  // Translates texts by the server's translation models; fails as a whole.
  absl::StatusOr<v1::TranslateResponse> Translate(const v1::TranslateRequest& request,
                                                  absl::Time deadline);

  // The same, handed over as it is translated; the last message has what is left of the answer.
  // Cancelled if the callback ended the call.
  absl::Status StreamTranslate(const v1::TranslateRequest& request, absl::Time deadline,
                               const TranslateCallback& on_message);

  absl::StatusOr<v1::ListModelsResponse> ListModels(absl::Time deadline);

  // `version` empty: the newest one that is served.
  absl::StatusOr<v1::ModelDescription> DescribeModel(absl::string_view model,
                                                     absl::string_view version,
                                                     absl::Time deadline);

  // Health of one service by its full name; empty: of the server as a whole. NotFound if the server
  // has no such service.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Health(
      absl::string_view service, absl::Time deadline);

  // The address as dialled: with the default port where none was given.
  const std::string& address() const;

 private:
  friend class CallbackLoop;
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Runs the callbacks of asynchronous calls on a thread of the caller's, for those who have a loop
// anyway: it saves a change of threads for each answer. While it exists the client starts no thread
// for them; one that it has already takes its part of them. One at a time for a client, which must
// outlive it.
class CallbackLoop {
 public:
  explicit CallbackLoop(Client& client);
  // What is outstanding goes to a thread of the client's.
  ~CallbackLoop();
  CallbackLoop(const CallbackLoop&) = delete;
  CallbackLoop& operator=(const CallbackLoop&) = delete;

  // Waits for an answer, until the deadline (gRPC rounds it up to milliseconds; the past: does not
  // wait), and runs its callback. False: none came.
  bool RunOne(absl::Time deadline);

 private:
  Client& client_;
};

// OK for a result that was decoded, otherwise the error that the server gave for this source.
absl::Status ResultStatus(const v1::Result& result);
absl::Status ResultStatus(const v1::ScoreResult& result);
absl::Status ResultStatus(const v1::AlignResult& result);

// True if a call that failed with this status would fail for any other sources too: the fault is
// with the request as a whole or with the server, not with the sources sent.
bool FailsEveryCall(const absl::Status& status);

// What a status of the server says besides its code and message is kept as payloads of
// absl::Status, under the types' URLs.

// After how long the server says that trying again makes sense, if it says so.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Set if the call failed because each of its sources did: the request was right, and the server
// answers. What Decode, Score, Align and StreamDecode return; not set by servers before 0.2, whose
// calls succeed with an error in each result.
std::optional<v1::SourceErrors> SourceErrorsOf(const absl::Status& status);

// The error of each source of such a call, in their order; empty for any other status.
// Where the server had no room for the error of a source, that of the call stands for it.
std::vector<google::rpc::Status> ErrorsOfSources(const absl::Status& status, int num_sources);

// Makes of such a status the response that it stands for, with an error in each result and nothing
// else. Any other is left as it is.
template <typename Response>
absl::StatusOr<Response> WithErrorsInResults(absl::StatusOr<Response> response, int num_sources) {
  if (response.ok()) {
    return response;
  }
  Response errors;
  for (google::rpc::Status& error : ErrorsOfSources(response.status(), num_sources)) {
    *errors.add_results()->mutable_error() = std::move(error);
  }
  return errors.results_size() > 0 ? absl::StatusOr<Response>(std::move(errors))
                                   : std::move(response);
}

// Decoding of long inputs: sources go out in batches, several calls at a time, and answers come
// back in the order of the sources. Memory holds the outstanding batches only, whatever the length
// of the input.

struct BulkOptions {
  // Model, version and options of every call; its sources are ignored.
  v1::DecodeRequest request;
  // Sources a call, at least 1.
  int batch = 32;
  // A call is sent earlier if its sources reach this many bytes.
  int64_t batch_bytes = 1 << 20;
  // Calls in flight, at least 1. With batch 1 and outstanding 1 each source is answered before the
  // next is asked for (a person at a terminal).
  int outstanding = 4;
  // For each call, from when it is sent.
  absl::Duration timeout = absl::Seconds(30);
};

struct BulkSource {
  v1::Source source;
  // What people call a source that is not text, such as its file; may be empty.
  std::string name;
  // Not OK: the source could not be read. It is not sent and takes its place among the answers with
  // this error.
  absl::Status status;
};

struct BulkAnswer {
  // Counts sources from 0.
  int64_t index = 0;
  const BulkSource& source;
  // Decoded, or an error: of the source, or of a call that failed otherwise.
  const v1::Result& result;
  // Model, version and numerics class of the call; its results are moved from. Empty after an error
  // of the call.
  const v1::DecodeResponse& response;
};

// Puts the next source into its argument; false: no further source.
using NextSource = absl::FunctionRef<bool(BulkSource&)>;
// Gets every answer once, in the order of the sources.
using AnswerSink = absl::FunctionRef<void(const BulkAnswer&)>;

// Both functions are called on this thread. A call that fails because of its sources gives each of
// them its error and the work goes on; one that fails in a way that others would fail as well (see
// FailsEveryCall) ends it: the error is returned, calls in flight are waited for, and sources from
// the failed call on get no answer.
absl::Status DecodeBulk(Client& client, const BulkOptions& options, NextSource next,
                        AnswerSink sink);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_INCLUDE_BEAMWRIGHT_CLIENT_H_
