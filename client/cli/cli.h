// The command line `beamwright`: decode, recognize, explain, score, align, models, health and
// load-test against a server, load-merge and capacity without one. Each subcommand is one file,
// <name>_command; score and align share theirs.
#ifndef BEAMWRIGHT_CLIENT_CLI_CLI_H_
#define BEAMWRIGHT_CLIENT_CLI_CLI_H_

namespace beamwright::client {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // a source failed, or the server did
inline constexpr int kExitUsage = 2;   // nonsense on the command line

// Parses the arguments, runs the subcommand and returns the exit code. Of a command line with
// faults, all are reported at once. "help COMMAND" is "COMMAND --help".
int RunCli(int argc, const char* const* argv);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_CLI_H_
