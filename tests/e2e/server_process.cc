#include "tests/e2e/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace beamwright::e2e {

std::string DefaultModel() { return BEAMWRIGHT_SOURCE_DIR "/models/g2p-en/1"; }

ServerProcess::ServerProcess(std::vector<std::string> arguments, const std::string& program) {
  std::string name = (std::filesystem::temp_directory_path() / "beamwright-XXXXXX").string();
  folder_ = mkdtemp(name.data());
  arguments.insert(arguments.begin(), program);
  arguments.insert(arguments.end(), {"--ports-file", folder_ + "/ports"});
  for (const char* flag :
       {"--grpc-address", "--http-address", "--metrics-address", "--admin-address"}) {
    if (std::find(arguments.begin(), arguments.end(), flag) == arguments.end()) {
      arguments.insert(arguments.end(), {flag, "127.0.0.1:0"});
    }
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    abort();
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  reader_ = std::thread([this, fd = ends[0]] { ReadLog(fd); });
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Wait();
  }
  std::filesystem::remove_all(folder_);
}

void ServerProcess::ReadLog(int fd) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
    absl::MutexLock lock(&mutex_);
    log_.append(buffer, static_cast<size_t>(got));
    mutex_.Await(absl::Condition(&reading_));
  }
  close(fd);
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

int ServerProcess::WaitForPort() {
  {
    absl::MutexLock lock(&mutex_);
    const auto told = [this] { return ended_ || absl::StrContains(log_, "ready on "); };
    mutex_.Await(absl::Condition(&told));
    if (ended_) {
      return 0;
    }
  }
  return ReadPort("grpc");
}

int ServerProcess::http_port() {
  WaitForPort();
  return ReadPort("http");
}

int ServerProcess::websocket_port() {
  WaitForPort();
  return ReadPort("websocket");
}

int ServerProcess::admin_port() {
  WaitForPort();
  return ReadPort("admin");
}

int ServerProcess::metrics_port() {
  const std::string address = WaitForLine("probes and metrics on ");
  const size_t port = address.rfind(':', address.find('"'));  // the line may be JSON
  return port == std::string::npos ? 0 : atoi(address.c_str() + port + 1);
}

int ServerProcess::ReadPort(const std::string& listener) const {
  std::ifstream ports(folder_ + "/ports");
  std::string name;
  for (int port = 0; ports >> name >> port;) {
    if (name == listener) {
      return port;
    }
  }
  return 0;
}

std::string ServerProcess::WaitForLine(const std::string& begin) {
  absl::MutexLock lock(&mutex_);
  const auto find = [&] {
    const size_t at = log_.find(begin);
    const size_t end = at == std::string::npos ? at : log_.find('\n', at);
    return std::pair(at + begin.size(), end);
  };
  const auto is_there = [&] { return ended_ || find().second != std::string::npos; };
  mutex_.Await(absl::Condition(&is_there));
  const auto [at, end] = find();
  return end == std::string::npos ? "" : log_.substr(at, end - at);
}

void ServerProcess::StopReading() {
  absl::MutexLock lock(&mutex_);
  reading_ = false;
}

void ServerProcess::Signal(int number) const { kill(pid_, number); }

int ServerProcess::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = true;
  }
  reader_.join();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string ServerProcess::log() {
  absl::MutexLock lock(&mutex_);
  return log_;
}

}  // namespace beamwright::e2e
