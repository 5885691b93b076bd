#include "client/cli/cli.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/command.h"
#include "client/cli/help.h"
#include "client/cli/suggestion.h"
#include "client/cli/terminal.h"

namespace beamwright::client {
namespace {

std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

// "; did you mean --beam-size?" for the first flag that the command does not have.
std::string FlagSuggestion(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  for (const std::string& each : command.remaining()) {
    absl::string_view given = each;
    if (absl::ConsumePrefix(&given, "--")) {
      const std::string name = NearestName(given.substr(0, given.find('=')), names);
      return name.empty() ? "" : absl::StrCat("; did you mean --", name, "?");
    }
  }
  return "";
}

}  // namespace

int UsageError(const CLI::App& command, absl::string_view message) {
  std::cerr << FullName(command) << ": " << message << "\nTry '" << FullName(command)
            << " --help'.\n";
  return kExitUsage;
}

int Failure(const CLI::App& command, absl::string_view message) {
  std::cerr << FullName(command) << ": " << message << "\n";
  return kExitFailed;
}

int RunCli(int argc, const char* const* argv) {
  CLI::App app(
      "Talks to a Beamwright server: decodes, explains, scores, asks about its models, measures "
      "it.",
      "beamwright");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this and exit.");
  app.set_version_flag("--version", "beamwright " BEAMWRIGHT_VERSION,
                       "Print the version and exit.");
  app.require_subcommand(1);
  app.footer("'beamwright COMMAND --help' explains a command.");
  const std::vector<Command> commands = {AddDecodeCommand(app),   AddExplainCommand(app),
                                         AddScoreCommand(app),    AddAlignCommand(app),
                                         AddModelsCommand(app),   AddHealthCommand(app),
                                         AddLoadTestCommand(app), AddCapacityCommand(app)};
  const auto chosen = [&]() -> const Command* {
    for (const Command& command : commands) {
      if (command.app->parsed()) {
        return &command;
      }
    }
    return nullptr;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      return app.exit(error);  // --help or --version: printed
    }
    if (chosen() != nullptr) {
      const CLI::App& command = *chosen()->app;
      return UsageError(command, absl::StrCat(Printable(error.what()), FlagSuggestion(command)));
    }
    if (argc >= 2 && argv[1][0] == '-') {
      return UsageError(app, error.what());
    }
    std::vector<std::string> names;
    for (const Command& command : commands) {
      names.push_back(command.app->get_name());
    }
    const std::string meant = argc < 2 ? "" : NearestName(argv[1], names);
    const std::string problem =
        argc < 2 ? "a command is missing"
                 : absl::StrCat("there is no command ", Printable(argv[1]),
                                meant.empty() ? "" : absl::StrCat(" (did you mean ", meant, "?)"));
    return UsageError(
        app, problem +
                 "; there are decode, explain, score, align, models, health, load-test and "
                 "capacity");
  }
  return chosen()->run();
}

}  // namespace beamwright::client
