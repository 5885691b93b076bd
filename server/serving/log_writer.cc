#include "server/serving/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace beamwright::serving {
namespace {

// A pipe that poll calls writable takes so much without waiting, and as a whole (pipe(7)).
constexpr size_t kPiece = PIPE_BUF;
// How often a writer whose reader does not read looks whether it should end.
constexpr int kLookMs = 50;

}  // namespace

LogWriter::LogWriter(LogWriterOptions options) : options_(std::move(options)) {
  // Signals are for other threads, also for those that wait for them later.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void LogWriter::Write(std::string line) {
  if (line.empty()) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  ++taken_;
  while (!lines_.empty() && bytes_ + line.size() > options_.max_bytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++dropped_;
  }
  bytes_ += line.size();
  lines_.push_back(std::move(line));
}

bool LogWriter::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto is_done = [this, until = taken_]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return CountDone() >= until; };
  return mutex_.AwaitWithTimeout(absl::Condition(&is_done), timeout);
}

int64_t LogWriter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

std::string LogWriter::Take() {
  std::string text;
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &LogWriter::HasWork));
  first_under_way_ = CountDone();
  while (!lines_.empty() &&
         (num_under_way_ == 0 || text.size() + lines_.front().size() <= kPiece)) {
    text += lines_.front();
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++num_under_way_;
  }
  return text;
}

bool LogWriter::WriteOut(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    pollfd entry{options_.fd, POLLOUT, 0};
    const int ready = poll(&entry, 1, kLookMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      absl::MutexLock lock(&mutex_);
      if (stop_) {
        return false;
      }
      continue;
    }
    const ssize_t written =
        write(options_.fd, text.data() + begin, std::min(text.size() - begin, kPiece));
    if (written > 0) {
      begin += static_cast<size_t>(written);
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

void LogWriter::TellIfItFlowsAgain() {
  int64_t news = 0;
  {
    absl::MutexLock lock(&mutex_);
    // While lines are still being dropped there will be more to report.
    if (bytes_ <= options_.max_bytes / 2) {
      news = dropped_ - std::exchange(told_, dropped_);
    }
  }
  if (news > 0 && options_.flows_again != nullptr) {
    options_.flows_again(news);
  }
}

void LogWriter::Run() {
  pthread_setname_np(pthread_self(), "bw-log");
  for (std::string text = Take(); !text.empty(); text = Take()) {
    const bool is_written = WriteOut(text);
    if (is_written) {
      TellIfItFlowsAgain();
    }
    absl::MutexLock lock(&mutex_);
    if (!is_written) {
      dropped_ += num_under_way_;
    }
    num_under_way_ = 0;
  }
}

}  // namespace beamwright::serving
