#include "tests/client/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ops/base/check.h"

namespace beamwright::client {
namespace {

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) {
    pointers.push_back(string.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::string& input,
                 const std::vector<std::string>& environment) {
  std::string folder = std::filesystem::temp_directory_path() / "beamwright-XXXXXX";
  BW_CHECK(mkdtemp(folder.data()) != nullptr);
  folder_ = folder;
  std::ofstream(folder_ + "/in") << input;
  std::vector<std::string> argument_copies = arguments;
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, (folder_ + "/in").c_str(), O_RDONLY, 0);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 1, (folder_ + "/out").c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder_ + "/err").c_str(), flags, 0600);
  BW_CHECK(posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr,
                       Pointers(argument_copies).data(), Pointers(variables).data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
}

ProcessResult Process::Wait() {
  int status = 0;
  BW_CHECK(waitpid(pid_, &status, 0) == pid_);
  ProcessResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = ReadAll(folder_ + "/out");
  result.err = ReadAll(folder_ + "/err");
  std::filesystem::remove_all(folder_);
  return result;
}

ProcessResult RunProcess(const std::vector<std::string>& arguments, const std::string& input,
                         const std::vector<std::string>& environment) {
  return Process(arguments, input, environment).Wait();
}

ProcessResult Beamwright(std::vector<std::string> arguments, const std::string& input,
                         const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), BEAMWRIGHT_PROGRAM);
  return RunProcess(arguments, input, environment);
}

}  // namespace beamwright::client
