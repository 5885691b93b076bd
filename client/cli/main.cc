// The program `beamwright`: docs/client.md.
#include "absl/synchronization/mutex.h"
#include "client/cli/cli.h"

int main(int argc, char** argv) {
  // Distributions build Abseil with its search for deadlocks, which makes all threads meet in one
  // lock whenever any lock is taken; gRPC takes dozens a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return beamwright::client::RunCli(argc, argv);
}
