// LogWriter: writes the lines of the log on a separate thread, so that a thread that logs never
// waits for the reader. A pipe that is not read, or a disk that is full, costs lines of the log and
// nothing else; the lines that are lost are counted. (spdlog's own thread pool would wait for the
// reader at the end of the process.)
#ifndef BEAMWRIGHT_SERVER_SERVING_LOG_WRITER_H_
#define BEAMWRIGHT_SERVER_SERVING_LOG_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace beamwright::serving {

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

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_LOG_WRITER_H_
