// The program `beamwright`: docs/client.md.
#include "client/cli/cli.h"

int main(int argc, char** argv) { return beamwright::client::RunCli(argc, argv); }
