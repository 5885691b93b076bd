#include "tests/tools/graph/shell.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace beamwright::ops::testing_tools {
namespace {

void Redirect(const std::string& path, int target) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || dup2(fd, target) < 0) {
    _exit(127);
  }
}

const std::filesystem::path& Folder() {
  static const struct Holder {
    Holder() {
      std::string pattern = ::testing::TempDir() + "/beamwright-XXXXXX";
      path = mkdtemp(pattern.data());
    }
    ~Holder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  } holder;
  return holder.path;
}

}  // namespace

Outcome RunProgram(const std::vector<std::string>& arguments) {
  const std::string output = TempPath("stdout");
  const std::string errors = TempPath("stderr");
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    Redirect(output, STDOUT_FILENO);
    Redirect(errors, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.output = ReadWholeFile(output);
  outcome.errors = ReadWholeFile(errors);
  return outcome;
}

std::string TempPath(const std::string& name) { return Folder() / name; }

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  EXPECT_TRUE(file.good()) << path;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace beamwright::ops::testing_tools
