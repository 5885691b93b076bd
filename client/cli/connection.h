// The flags by which every subcommand finds its server and its model, and a server's errors for
// people.
#ifndef BEAMWRIGHT_CLIENT_CLI_CONNECTION_H_
#define BEAMWRIGHT_CLIENT_CLI_CONNECTION_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "include/beamwright/client.h"

namespace beamwright::client {

struct ConnectionFlags {
  ClientOptions client;
  absl::Duration timeout = absl::Seconds(30);

  absl::Time Deadline() const { return absl::Now() + timeout; }
};

inline constexpr char kConnectionGroup[] = "Connection";

// --server (environment: BEAMWRIGHT_SERVER), --timeout, and those of TLS and tokens. `flags` must
// outlive the parsing.
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags);

// An error of a call as a sentence: what happened, and what to do about it where that is known.
std::string Explain(const absl::Status& status, const ConnectionFlags& flags);

// "NOT_FOUND: there is no model x"
std::string CodeAndMessage(const absl::Status& status);

// --model and --version, as every command that asks a model has them.

// The strings must outlive the parsing.
void AddModelFlag(CLI::App& app, std::string& model);
void AddVersionFlag(CLI::App& app, std::string& version);

// Both, into the fields of that name.
template <typename Request>
void AddModelFlags(CLI::App& app, Request& request) {
  AddModelFlag(app, *request.mutable_model());
  AddVersionFlag(app, *request.mutable_version());
}

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_CONNECTION_H_
