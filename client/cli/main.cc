// The program `beamwright`: docs/client.md.
#include "client/cli/command.h"
#include "ops/base/threads.h"

int main(int argc, char** argv) {
  beamwright::SkipDeadlockSearch();
  return beamwright::client::RunCli(argc, argv);
}
