#include "tests/conformance/worker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ops/base/check.h"

namespace beamwright::ops {
namespace {

void WriteAll(int file, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    BW_CHECK(written > 0);
    at += written;
    size -= static_cast<size_t>(written);
  }
}

// False at the end of the stream.
bool ReadAll(int file, void* bytes, size_t size) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = read(file, at, size);
    if (got <= 0) {
      return false;
    }
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// In the child: one record a job, the size of its message and the message.
[[noreturn]] void Work(int file, size_t first, size_t count,
                       const std::function<absl::Status(size_t)>& job, unsigned limit_seconds) {
  for (size_t i = first; i < count; ++i) {
    alarm(limit_seconds);  // its signal ends the process
    const absl::Status status = job(i);
    const std::string message = status.ok() ? "" : status.ToString();
    const uint64_t size = message.size();
    WriteAll(file, &size, sizeof(size));
    WriteAll(file, message.data(), message.size());
  }
  _exit(0);
}

std::string HowItEnded(int wait_status, unsigned limit_seconds) {
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGALRM) {
    return absl::StrCat("took longer than ", limit_seconds, " seconds");
  }
  return WIFSIGNALED(wait_status)
             ? absl::StrCat("crashed: ", strsignal(WTERMSIG(wait_status)))
             : absl::StrCat("ended the process with exit code ", WEXITSTATUS(wait_status));
}

}  // namespace

std::vector<Outcome> RunInChildren(size_t count, const std::function<absl::Status(size_t)>& job,
                                   unsigned limit_seconds) {
  std::vector<Outcome> outcomes;
  while (outcomes.size() < count) {
    int ends[2];
    BW_CHECK(pipe(ends) == 0);
    std::fflush(nullptr);  // or the child would print what is buffered a second time
    const pid_t child = fork();
    BW_CHECK(child >= 0);
    if (child == 0) {
      close(ends[0]);
      Work(ends[1], outcomes.size(), count, job, limit_seconds);
    }
    close(ends[1]);
    uint64_t size = 0;
    while (ReadAll(ends[0], &size, sizeof(size))) {
      std::string message(size, '\0');
      if (!ReadAll(ends[0], message.data(), size)) {
        break;
      }
      outcomes.push_back({.error = std::move(message)});
    }
    close(ends[0]);
    int wait_status = 0;
    BW_CHECK(waitpid(child, &wait_status, 0) == child);
    if (outcomes.size() < count) {
      outcomes.push_back({.crashed = true, .error = HowItEnded(wait_status, limit_seconds)});
    }
  }
  return outcomes;
}

}  // namespace beamwright::ops
