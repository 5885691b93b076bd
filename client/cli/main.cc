// The program `beamwright`: docs/client.md.
#include "client/cli/command.h"
#include "ops/base/mutex_checks.h"

int main(int argc, char** argv) {
  beamwright::SkipDeadlockSearch();
  return beamwright::client::RunCli(argc, argv);
}
