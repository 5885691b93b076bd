// AccessLog: a line for answered calls, one in every N. Says who asked, for what
// and how it went, never what the request or the answer holds.
#ifndef BEAMWRIGHT_SERVER_SERVING_ACCESS_LOG_H_
#define BEAMWRIGHT_SERVER_SERVING_ACCESS_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "server/serving/call_record.h"
#include "server/serving/logging.h"

namespace beamwright::serving {

// Thread-safe.
class AccessLog : public CallObserver {
 public:
  // Writes calls 1, n + 1, 2n + 1 and so on that succeeded, and as large a part of those that
  // failed; one_of: at least 1. `write` takes a line, for tests; null: the log.
  explicit AccessLog(int one_of, std::function<void(const LogFields&)> write = nullptr);

  void OnCall(const CallRecord& call) override;

 private:
  const int one_of_;
  const std::function<void(const LogFields&)> write_;
  std::atomic<int64_t> succeeded_{0};
  std::atomic<int64_t> failed_{0};
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_ACCESS_LOG_H_
