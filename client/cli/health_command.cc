// beamwright health: asks grpc.health.v1 and answers by its exit code.
#include <iostream>
#include <memory>
#include <string>

#include "client/cli/answers.h"
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/output.pb.h"

namespace beamwright::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

struct HealthFlags {
  std::string service;
  ConnectionFlags connection;
  bool json = false;
};

int Health(const CLI::App& command, const HealthFlags& flags) {
  auto client = Client::Connect(flags.connection.client);
  if (!client.ok()) {
    return UsageError(command, client.status().message());
  }
  const auto health = (*client)->Health(flags.service, flags.connection.Deadline());
  if (!health.ok()) {
    return Failure(command, Explain(health.status(), flags.connection));
  }
  const std::string& status = HealthCheckResponse::ServingStatus_Name(*health);
  if (flags.json) {
    ServiceHealth output;
    output.set_service(flags.service);
    output.set_status(status);
    std::cout << ToJson(output, /*pretty=*/false);
  } else {
    std::cout << status << "\n";
  }
  return *health == HealthCheckResponse::SERVING ? kExitOk : kExitFailed;
}

}  // namespace

Command AddHealthCommand(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("health", "Ask whether the server is serving.");
  auto flags = std::make_shared<HealthFlags>();
  app->add_option(
         "SERVICE", flags->service,
         "Full name of a service, such as beamwright.v1.DecodeService [default: the server "
         "as a whole]")
      ->group("Input");
  AddConnectionFlags(*app, flags->connection);
  app->add_flag("--json", flags->json, "Print JSON.")->group("Output");
  app->footer(
      "Examples:\n"
      "  beamwright health && echo ready\n"
      "  beamwright health --server decoder.example:8001 beamwright.v1.DecodeService\n"
      "Exit code: 0 serving, 1 not serving or no answer, 2 wrong command line.");
  return {app, [app, flags] { return Health(*app, *flags); }};
}

}  // namespace beamwright::client
