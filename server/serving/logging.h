// The log: to standard error, for people (text) or for machines (JSON, one object a line).
#ifndef BEAMWRIGHT_SERVER_SERVING_LOGGING_H_
#define BEAMWRIGHT_SERVER_SERVING_LOGGING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/serving/call_record.h"

namespace beamwright::serving {

struct LogField {
  std::string name;
  std::string value;
  bool is_number = false;
};
using LogFields = std::vector<LogField>;

// level: debug, info, warning, error or off; format: text or json. Once, before threads start. From
// then on no thread that logs waits for the reader of standard error (serving/log_writer.h).
void SetUpLogging(const std::string& level, const std::string& format);

// Waits until all that was logged before is written; false if `timeout` came first. For the end of
// the process.
bool FlushLog(absl::Duration timeout);

// Lines that standard error did not take in time.
int64_t DroppedLogLines();

// What an access log line says, at level info.
void LogFieldsOfCall(const LogFields& fields);

// The fields as "method=Decode code=OK" (values with blanks, quotes or control characters quoted)
// and as members of a JSON object. Long values are cut.
std::string FieldsAsText(const LogFields& fields);
std::string FieldsAsJson(const LogFields& fields);

// A line for one answered call in N. Says who asked, for what and how it went, never what the
// request or the answer holds. Thread-safe.
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

#endif  // BEAMWRIGHT_SERVER_SERVING_LOGGING_H_
