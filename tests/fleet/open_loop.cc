// Calls a fleet at a rate, whatever it answers, and writes down what became of every call:
//
//   beamwright-fleet-load TARGET SERVICE_CONFIG RATE [SECONDS]
//
// SERVICE_CONFIG is a file, or '-' for the client's own. Ends after SECONDS, or at SIGTERM, when
// all calls are answered. A line a call: when it was due, ms since the epoch; how long it took, ms;
// the code; the version that answered; how often it was answered; 1 if the answer was the right
// one.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/load/load.h"
#include "include/beamwright/client.h"

namespace beamwright::fleet {
namespace {

constexpr absl::string_view kWords[] = {"beam",     "search", "replica",  "balance",
                                        "recovery", "drain",  "frozenly", "partition"};
constexpr absl::Duration kTimeout = absl::Seconds(60);

std::atomic<bool> stop{false};

struct Call {
  absl::Time due;
  absl::Time done;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;
  std::string version;
  int answers = 0;
  bool right = false;
};

v1::DecodeRequest RequestOf(size_t number) {
  v1::DecodeRequest request;
  request.mutable_options()->set_beam_size(8);
  request.mutable_options()->set_n_best(4);
  request.add_sources()->set_text(std::string(kWords[number % std::size(kWords)]));
  return request;
}

// All that must be the same for every server.
std::string ContentOf(const v1::DecodeResponse& response) {
  std::string content;
  for (const v1::Result& result : response.results()) {
    for (const v1::Hypothesis& hypothesis : result.decoded().hypotheses()) {
      content += hypothesis.SerializeAsString();
    }
  }
  return content;
}

class Load {
 public:
  explicit Load(client::Client& client) : client_(client) {}

  // What the answers are while nothing disturbs.
  absl::Status LearnAnswers() {
    for (size_t word = 0; word < std::size(kWords); ++word) {
      auto response = client_.Decode(RequestOf(word), absl::Now() + absl::Minutes(1));
      if (!response.ok()) {
        return response.status();
      }
      right_.push_back(ContentOf(*response));
    }
    return absl::OkStatus();
  }

  void Run(double rate, absl::Duration duration) {
    client::ArrivalTimes arrivals(client::Arrivals::kPoisson, rate, 1);
    const absl::Time start = absl::Now();
    for (size_t number = 0; !stop; ++number) {
      const absl::Duration at = arrivals.Next();
      if (at > duration) {
        break;
      }
      absl::SleepFor(start + at - absl::Now());
      Start(number, start + at);
    }
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Load::NothingInFlight), 2 * kTimeout);
  }

  void Print() const {
    absl::MutexLock lock(&mutex_);
    for (const Call& call : calls_) {
      std::printf("%lld %lld %s %s %d %d %s\n",
                  static_cast<long long>(absl::ToUnixMillis(call.due)),
                  static_cast<long long>(absl::ToInt64Milliseconds(call.done - call.due)),
                  absl::StatusCodeToString(call.code).c_str(),
                  call.version.empty() ? "-" : call.version.c_str(), call.answers, call.right,
                  call.message.c_str());
    }
  }

 private:
  void Start(size_t number, absl::Time due) {
    Call* call = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      call = &calls_.emplace_back();
      call->due = call->done = due;
      ++in_flight_;
    }
    client_.DecodeAsync(RequestOf(number), due + kTimeout,
                        [this, call, number](absl::StatusOr<v1::DecodeResponse> response) {
                          Finish(*call, number, std::move(response));
                        });
  }

  void Finish(Call& call, size_t number, absl::StatusOr<v1::DecodeResponse> response) {
    absl::MutexLock lock(&mutex_);
    call.done = absl::Now();
    call.code = response.status().code();
    ++call.answers;
    if (response.ok()) {
      call.version = response->version();
      call.right = ContentOf(*response) == right_[number % right_.size()];
    } else {
      call.message = std::string(response.status().message());
    }
    --in_flight_;
  }

  bool NothingInFlight() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return in_flight_ == 0; }

  client::Client& client_;
  std::vector<std::string> right_;
  mutable absl::Mutex mutex_;
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

int Main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::cerr << "usage: beamwright-fleet-load TARGET SERVICE_CONFIG RATE [SECONDS]\n";
    return 2;
  }
  client::ClientOptions options{.address = argv[1]};
  options.keepalive = absl::Seconds(2);
  if (std::string(argv[2]) != "-") {
    std::ostringstream config;
    config << std::ifstream(argv[2]).rdbuf();
    options.service_config = config.str();
  }
  auto client = client::Client::Connect(options);
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 2;
  }
  signal(SIGTERM, [](int) { stop = true; });
  Load load(**client);
  if (const absl::Status learned = load.LearnAnswers(); !learned.ok()) {
    std::cerr << learned << "\n";
    return 1;
  }
  std::cerr << "calling\n";
  load.Run(std::atof(argv[3]),
           argc == 5 ? absl::Seconds(std::atof(argv[4])) : absl::InfiniteDuration());
  load.Print();
  return 0;
}

}  // namespace
}  // namespace beamwright::fleet

int main(int argc, char** argv) { return beamwright::fleet::Main(argc, argv); }
