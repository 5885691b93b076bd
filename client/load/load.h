// A load generator. Closed loop: a fixed number of calls is kept in flight, each answer starts the
// next call; it measures how much a server can do. Open loop: calls are due at given times,
// whatever the server does, and latency counts from when a call was due. That is what users see who
// arrive at their own pace; a closed loop waits for a slow server and so hides how slow it is.
#ifndef BEAMWRIGHT_CLIENT_LOAD_LOAD_H_
#define BEAMWRIGHT_CLIENT_LOAD_LOAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "client/load/histogram.h"
#include "include/beamwright/client.h"
#include "inference/grpc_service.pb.h"

namespace beamwright::client {

// What a load is sent to: a server of one protocol. The load generator knows calls and answers; how
// they travel is decided here, so that one generator measures this server and others alike.

enum class Protocol {
  kNative,     // beamwright.v1 over gRPC
  kRest,       // the same as JSON over HTTP
  kInferGrpc,  // Open Inference Protocol over gRPC
  kInferHttp,  // the same as JSON over HTTP
};

struct LoadCall {
  v1::DecodeRequest request;
  // In the place of the request's sources and options, for the Open Inference Protocol. May be
  // null; must outlive the call otherwise.
  const inference::ModelInferRequest* infer = nullptr;
  // As a stream of one source; `on_first` is then called when the first token has come that can no
  // longer change.
  bool stream = false;
  std::function<void()> on_first;
  absl::Duration timeout;
  CallSettings settings;
};

// Called once for each call, on any thread; it may send further calls, and must not block.
using LoadDone = std::function<void(absl::StatusOr<v1::DecodeResponse>)>;

// Thread-safe. Destructors cancel what is outstanding and wait for it.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;

  virtual void Send(LoadCall call, LoadDone done) = 0;
  virtual void CancelOutstanding() = 0;
  // Most calls that can be in flight.
  virtual int most_in_flight() const = 0;

  // As AsyncCalls has them (client/async_calls.h), where calls are on a queue. False: they are not.
  virtual bool SetLoop(bool /*has_loop*/) { return false; }
  virtual bool RunOne(absl::Time /*deadline*/) { return false; }
};

// The client must outlive the target.
std::unique_ptr<LoadTarget> MakeNativeTarget(Client& client);

// Connects to options.address by the protocol. Errors are Client::Connect's; InvalidArgument as
// well for TLS over HTTP, which is not there. Streams are for kNative alone.
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeTarget(Protocol protocol,
                                                       const ClientOptions& options);

// The protocols, one by one.

std::unique_ptr<LoadTarget> MakeOwnedNativeTarget(std::unique_ptr<Client> client);
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeInferGrpcTarget(const ClientOptions& options);
// `protocol`: kRest or kInferHttp.
absl::StatusOr<std::unique_ptr<LoadTarget>> MakeHttpTarget(Protocol protocol,
                                                           const ClientOptions& options);

// Where an HTTP server is, out of the same options that name a gRPC one.

struct HttpAddress {
  std::string url;  // "http://host:port"
  SecurityOptions security;
  std::string authorization;  // empty: none
};

// "host", "host:port" (8000 without one), or either after http:// or https://. InvalidArgument as
// Client::Connect's, and for a name of the certificate, which HTTP takes from the host.
absl::StatusOr<HttpAddress> HttpAddressOf(const ClientOptions& options);

// When the calls of an open loop are due: users who come at their own pace, whatever the server
// does.

enum class Arrivals {
  kPoisson,  // independent of each other: exponential gaps, so that calls come in bursts
  kEven,     // one gap of 1 / rate after the other
};

// The times of arrival one by one, as durations since the start. Equal arguments give equal times,
// on every platform. Not thread-safe.
class ArrivalTimes {
 public:
  // rate: calls a second, above 0.
  ArrivalTimes(Arrivals kind, double rate, uint64_t seed);

  // Not before the one that came last.
  absl::Duration Next();

 private:
  const Arrivals kind_;
  const double rate_;
  std::mt19937_64 random_;
  int64_t count_ = 0;
  double seconds_ = 0;
};

struct LoadReport;

// A call of a mix.
struct MixedCall {
  v1::Source source;
  v1::DecodeOptions options;  // over those of all calls
  // In the place of both, for targets of the Open Inference Protocol.
  std::shared_ptr<const inference::ModelInferRequest> infer;
  CallSettings settings;
  absl::Duration timeout;  // zero: that of all calls
  // When the call is due, since the beginning of the load (LoadOptions::replay).
  absl::Duration at;
  // What the best hypothesis must be: its tokens, or without tokens its text; or nothing.
  v1::Hypothesis expected;
};

struct LoadOptions {
  // Model, version and options of every call; its sources are ignored.
  v1::DecodeRequest request;
  // Sent in this order, from the first again after the last. At least one.
  std::vector<v1::Source> sources;
  // In the place of sources, in this order: calls of one source each.
  std::vector<MixedCall> mix;
  // Each call of the mix once, when it is due (MixedCall::at, ascending), `speed` times as fast as
  // that says. An open loop without a rate.
  bool replay = false;
  double speed = 1;
  // Sources a call, at least 1.
  int batch = 1;
  // Closed loop: calls in flight, 1 to kMaxConcurrency. Open loop: the most of them; a call that is
  // due when that number is in flight is skipped and counted as such.
  int concurrency = 16;
  // Calls a second that are due, at most kMaxRate. 0: closed loop.
  double rate = 0;
  // Open loop: how the calls arrive, and where their chance starts from.
  Arrivals arrivals = Arrivals::kPoisson;
  uint64_t seed = 1;
  // The share of all calls, 0 to 1 and by chance from `seed`, that is given up `cancel_after` its
  // start, as by users who have gone. Calls of a mix that say for themselves are left as they are.
  double cancel_share = 0;
  absl::Duration cancel_after = absl::InfiniteDuration();
  // A call is good if all its sources were decoded and it took no longer than this.
  absl::Duration good_within = absl::InfiniteDuration();
  // Calls due before this has passed are made but not counted.
  absl::Duration warmup = absl::Seconds(1);
  // Time limits of answers, and of first tokens, against which LoadInterval counts.
  std::vector<absl::Duration> limits, first_limits;
  // Calls are due for this long after the warm-up, at most kMaxLoadDuration.
  absl::Duration duration = absl::Seconds(10);
  // At most this many counted calls; 0: as many as the time allows.
  int64_t max_calls = 0;
  // For each call.
  absl::Duration timeout = absl::Seconds(30);
  // Calls are streams (StreamDecode) of one source each: what is measured besides is when the first
  // stable token came.
  bool stream = false;
  // Set to true by anybody, for example a signal handler, it ends the run: calls in flight are
  // cancelled and not counted. May be null; must outlive the run otherwise.
  const std::atomic<bool>* stop = nullptr;
  // If set, called about twice a second while the run lasts, on a separate thread, with what was
  // counted so far and how long calls are due yet (zero: answers are waited for).
  std::function<void(const LoadReport&, absl::Duration left)> on_progress;
};

inline constexpr int kMaxConcurrency = 4096;
inline constexpr int kMaxHttpConcurrency = 256;  // a thread each
inline constexpr double kMaxRate = 1e6;
inline constexpr absl::Duration kMaxLoadDuration = absl::Hours(24);

// Of durations; zero where there was none.
struct Percentiles {
  absl::Duration p50, p90, p99, max;
  absl::Duration p999, p9999, mean, deviation;
};

Percentiles PercentilesOf(const Histogram& histogram);

// A part of a run.
struct LoadInterval {
  absl::Duration begin;  // since the end of the warm-up
  absl::Duration length;
  int64_t num_calls = 0;   // answered in it
  int64_t num_failed = 0;  // calls
  absl::Duration p50, p99;
  // Calls ended in it without an answer within LoadOptions::limits, one number for each; the same
  // of first_limits, for streams.
  std::vector<int64_t> num_over, num_first_over;
};

struct LoadReport {
  // From the end of the warm-up to the end of the last counted call.
  absl::Duration elapsed;
  int64_t num_calls = 0;    // answered
  int64_t num_good = 0;     // of these, see LoadOptions::good_within
  int64_t num_sources = 0;  // decoded
  int64_t num_tokens = 0;   // of their best hypotheses
  int64_t num_checked = 0;  // answered calls of a mix that say what to expect
  int64_t num_wrong = 0;    // of these, those whose best hypothesis was another
  std::string first_wrong;  // what was expected and what came
  // Who answered, as answers say: "g2p-en 1 (avx2-f32)"; several after a reload.
  std::set<std::string> models;
  int64_t num_skipped = 0;    // due, but never sent (open loop)
  int64_t num_cancelled = 0;  // given up by us, as asked for; in no other number
  std::string unsteady;       // why the warm-up ended before the figures were steady
  // Calls that failed, by code; that of a call none of whose sources has an answer is one of
  // theirs.
  std::map<absl::StatusCode, int64_t> failed_calls;
  // Sources that failed, by code: in answered calls, and all those of calls that failed for that.
  // Sources of calls that failed otherwise (a server that is down) are counted nowhere.
  std::map<absl::StatusCode, int64_t> failed_sources;
  // The first failure of a call or a source; OK: there was none.
  absl::Status first_failure;
  // Of calls with a source that was decoded, from when they were due (closed loop: from before
  // sending) to the answer.
  Percentiles latency;
  // Streams: from before sending to the first message with a token that can no longer change.
  Percentiles first_token;
  // The same of calls that were refused: RESOURCE_EXHAUSTED or UNAVAILABLE.
  Percentiles refused;
  // Of `latency`.
  std::vector<PercentilePoint> latency_curve;
  // All of `latency`, exactly (client/load/histogram.h).
  std::string latency_hdr;
  // The run in parts of LoadIntervalOf(options.duration), those without an end of a call as well.
  std::vector<LoadInterval> timeline;
  // CPU time that this process took from the beginning of the warm-up on, and the wall time of
  // that.
  absl::Duration cpu_time, wall_time;
  // How late calls were sent. More than a few milliseconds: this machine cannot send at that rate.
  Percentiles lag;
  // The run ended early because calls failed in a row in a way that others would fail as well.
  bool gave_up = false;
  // The run was ended by `stop`.
  bool stopped = false;
};

// Calls that failed, whatever their codes.
int64_t NumFailed(const LoadReport& report);
// CPUs that this process used on average; 0 if nothing was run.
double ClientCpus(const LoadReport& report);

// A second, or more in long runs, so that a timeline has at most about 600 parts.
absl::Duration LoadIntervalOf(absl::Duration duration);

// Why the figures say more about this machine than about the server: calls that were sent late or
// never, or nearly all of its CPUs in use by the client itself. Empty: they do not.
std::string ClientBottleneck(const LoadReport& report, int num_cpus);

// Runs the load and returns when every call that it started has ended: so within warmup + duration
// + timeout. InvalidArgument names the option out of range. Connect the target with max_attempts =
// 1: retries would hide failures.
absl::StatusOr<LoadReport> RunLoad(LoadTarget& target, const LoadOptions& options);
absl::StatusOr<LoadReport> RunLoad(Client& client, const LoadOptions& options);

// Sends the load until it is steady: five seconds in a row whose rates and medians lie within a
// tenth of each other, or within what chance does to so few calls; for a minute at most. Returns
// what is still unsteady then; empty: nothing.
absl::StatusOr<std::string> WarmUpUntilSteady(LoadTarget& target, const LoadOptions& options);
// Whether the last five whole parts are that, and why not.
std::string WhyUnsteady(const std::vector<LoadInterval>& parts);

// What the calls of a load run add up to. It is given times and takes none itself, so its
// arithmetic can be tested.

// Thread-safe.
class Tally {
 public:
  // Not the wall clock, which may be set while we measure.
  using Clock = std::chrono::steady_clock;

  // begin: when counting begins, the end of the warm-up. Of the options, good_within, duration and
  // the limits count.
  Tally(Clock::time_point begin, const LoadOptions& options);

  // A call was due at `intended` and is sent at `sent`. In a closed loop the two are the same.
  void Sent(Clock::time_point intended, Clock::time_point sent);
  // A call was due but too many were in flight.
  void Skipped();
  // The call that was due at `intended` ended at `now`: latency is what lies between, so that
  // waiting for a sender that is late, or for a server that is, counts.
  void Ended(Clock::time_point intended, Clock::time_point now,
             const absl::StatusOr<v1::DecodeResponse>& response);
  // A call was given up by us, as asked for.
  void Cancelled(Clock::time_point now);
  // The first stable token of a stream that began at `intended` came at `now`.
  void FirstToken(Clock::time_point intended, Clock::time_point now);
  // An answer was held against what was expected; `wrong` says how they differ, or is empty.
  void Checked(const std::string& wrong);
  // Keeps `status` as the first failure if there was none; counts nothing.
  void NoteFailure(const absl::Status& status);

  // All but gave_up, stopped and what the process took.
  LoadReport Report() const;

 private:
  // The part of the timeline that `now` is in; closes those before.
  LoadInterval& IntervalAt(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetPercentiles(LoadInterval& part) const;
  void CountResults(const v1::DecodeResponse& response, absl::Duration latency)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteFailureLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock::time_point begin_;
  const absl::Duration good_within_;
  const absl::Duration interval_;
  const std::vector<absl::Duration> limits_, first_limits_;
  Histogram interval_latency_;  // of the last part of the timeline
  Histogram answered_, refused_, lag_, first_token_;
  mutable absl::Mutex mutex_;
  Clock::time_point last_end_ ABSL_GUARDED_BY(mutex_);
  LoadReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_LOAD_H_
