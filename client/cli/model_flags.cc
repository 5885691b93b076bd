#include "client/cli/model_flags.h"

namespace beamwright::client {

void AddModelFlag(CLI::App& app, std::string& model) {
  app.add_option("--model", model, "The model to ask. May be left out where only one is served.")
      ->type_name("NAME")
      ->group("Input");
}

void AddVersionFlag(CLI::App& app, std::string& version) {
  app.add_option("--version", version,
                 "Its version, or a label of it [default: the newest that is served]")
      ->type_name("VERSION")
      ->group("Input");
}

}  // namespace beamwright::client
