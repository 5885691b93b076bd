// What chaos tests share: their two forms, scraped metrics, and clients that keep a tally.
#ifndef BEAMWRIGHT_TESTS_CHAOS_CHAOS_H_
#define BEAMWRIGHT_TESTS_CHAOS_CHAOS_H_

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.grpc.pb.h"
#include "tests/e2e/server_process.h"

namespace beamwright::chaos {

// BEAMWRIGHT_CHAOS=long, as `./dev soak` sets it, asks for the long forms.
bool IsLong();
template <typename T>
T Form(T in_short, T in_long) {
  return IsLong() ? in_long : in_short;
}

// A channel with a separate connection, with a policy that balances over the address's resolutions
// and makes no retries.
std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::string& service_config = "");

// The words that clients decode, and one request with a few of them.
v1::DecodeRequest WordRequest(int number);
inline constexpr int kNumRequests = 8;

// A response without what a clock decides, as bytes.
std::string Content(v1::DecodeResponse response);

// Answers that are right: by version, then by the number of the request.
using Golden = std::map<std::string, std::vector<std::string>>;
// What a server answers when nothing disturbs it, under the version that it serves.
void AddGolden(const std::string& address, Golden& golden);

// What calls ended with. Thread-safe.
class Tally {
 public:
  // Counts a call; a good answer must be one of `golden`, entirely.
  void Count(const grpc::Status& status, const v1::DecodeResponse& response, int number,
             const Golden& golden);
  int64_t of(grpc::StatusCode code) const;
  int64_t all() const;
  int64_t wrong() const;
  // Versions that answered.
  std::map<std::string, int64_t> versions() const;
  // "0: 12, 14: 3", and the messages of the first that failed.
  std::string ToString() const;

 private:
  mutable absl::Mutex mutex_;
  std::map<int, int64_t> codes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> versions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
  int64_t wrong_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One call with a deadline that only a hanging server reaches; counted.
grpc::Status Call(v1::DecodeService::Stub& stub, int number, const Golden& golden, Tally& tally);

// What the server asked malloc for and has not returned.
int64_t HeapBytes(int metrics_port);
int64_t ResidentBytes(int metrics_port);

}  // namespace beamwright::chaos

#endif  // BEAMWRIGHT_TESTS_CHAOS_CHAOS_H_
