// --model and --version, as every command that asks a model has them.
#ifndef BEAMWRIGHT_CLIENT_CLI_MODEL_FLAGS_H_
#define BEAMWRIGHT_CLIENT_CLI_MODEL_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"

namespace beamwright::client {

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

#endif  // BEAMWRIGHT_CLIENT_CLI_MODEL_FLAGS_H_
