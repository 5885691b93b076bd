// The command line `beamwright`. Each subcommand is one file, <name>_command; score and align share
// theirs, models and health as well; command.cc lists them. A Command is its part of the command
// line, and what to do once that is parsed.
#ifndef BEAMWRIGHT_CLIENT_CLI_COMMAND_H_
#define BEAMWRIGHT_CLIENT_CLI_COMMAND_H_

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"

namespace beamwright::client {

struct Command {
  CLI::App* app = nullptr;   // owned by its parent
  std::function<int()> run;  // returns the exit code; holds what the flags set
};

Command AddDecodeCommand(CLI::App& parent);
Command AddRecognizeCommand(CLI::App& parent);
Command AddTranslateCommand(CLI::App& parent);
Command AddExplainCommand(CLI::App& parent);
Command AddScoreCommand(CLI::App& parent);
Command AddAlignCommand(CLI::App& parent);
Command AddModelsCommand(CLI::App& parent);
Command AddHealthCommand(CLI::App& parent);
Command AddLoadTestCommand(CLI::App& parent);
Command AddLoadMergeCommand(CLI::App& parent);
Command AddStreamTestCommand(CLI::App& parent);
Command AddCapacityCommand(CLI::App& parent);

// Each prints "beamwright <command>: <message>" to standard error and returns the exit code for it.
int UsageError(const CLI::App& command, absl::string_view message);
int Failure(const CLI::App& command, absl::string_view message);

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // a source failed, or the server did
inline constexpr int kExitUsage = 2;   // nonsense on the command line

// Parses the arguments, runs the subcommand and returns the exit code. Of a command line with
// faults, all are reported at once. "help COMMAND" is "COMMAND --help".
int RunCli(int argc, const char* const* argv);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_COMMAND_H_
