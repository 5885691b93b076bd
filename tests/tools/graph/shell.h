// Runs programs for tests and keeps their files in a folder of the test's own.
#ifndef BEAMWRIGHT_TESTS_TOOLS_GRAPH_SHELL_H_
#define BEAMWRIGHT_TESTS_TOOLS_GRAPH_SHELL_H_

#include <string>
#include <vector>

namespace beamwright::ops::testing_tools {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;
  std::string errors;
};

// Starts `arguments[0]` without a shell and waits for it.
Outcome RunProgram(const std::vector<std::string>& arguments);

// A path in a folder that exists and belongs to this process alone.
std::string TempPath(const std::string& name);
void WriteFile(const std::string& path, const std::string& content);
std::string ReadWholeFile(const std::string& path);

}  // namespace beamwright::ops::testing_tools

#endif  // BEAMWRIGHT_TESTS_TOOLS_GRAPH_SHELL_H_
