// The log: to standard error, for people (text) or for machines (JSON, one object a line).
#ifndef BEAMWRIGHT_SERVER_SERVING_LOGGING_H_
#define BEAMWRIGHT_SERVER_SERVING_LOGGING_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/caller.h"

namespace beamwright::serving {

// LogWriter: writes the lines of the log on a separate thread, so that a thread that logs never
// waits for the reader. A pipe that is not read, or a disk that is full, costs lines of the log and
// nothing else; the lines that are lost are counted. (spdlog's own thread pool would wait for the
// reader at the end of the process.)

struct LogWriterOptions {
  // Not owned, and left as it is: others may share its open file, so it is not made non-blocking.
  int fd = 2;
  // Lines that wait together. One more drops the oldest: the newest show what is going on.
  size_t max_bytes = 1 << 20;
  // Gets the number of lines dropped since the last call, once lines flow again. Called on the
  // writer's thread; it may write. May be null.
  std::function<void(int64_t dropped)> flows_again;
};

// Thread-safe.
class LogWriter {
 public:
  explicit LogWriter(LogWriterOptions options);
  // Writes what can be written at once and drops the rest.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Takes a line with its end. Never waits for the file.
  void Write(std::string line);
  // Waits until all that was taken before is written or dropped. False if `timeout` came first.
  bool Flush(absl::Duration timeout);
  // Lines that were not written, or not whole.
  int64_t dropped() const;

 private:
  void Run();
  // Takes lines that can be written together and notes that they are under way; none when the
  // writer ends.
  std::string Take();
  // Writes `text` piece by piece, each as soon as the file takes it. False if it fails or the
  // writer ends.
  bool WriteOut(const std::string& text);
  // How many of the lines that were taken, from the first on, are written or dropped.
  int64_t CountDone() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return num_under_way_ > 0 ? first_under_way_ : taken_ - static_cast<int64_t>(lines_.size());
  }
  void TellIfItFlowsAgain();
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !lines_.empty(); }

  const LogWriterOptions options_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;             // of lines_
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;            // lines, by Write
  int64_t first_under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // counted as taken_
  int64_t num_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;  // of dropped_
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

struct LogField {
  std::string name;
  std::string value;
  bool is_number = false;
};
using LogFields = std::vector<LogField>;

// level: debug, info, warning, error or off; format: text or json. Once, before threads start. From
// then on no thread that logs waits for the reader of standard error.
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
