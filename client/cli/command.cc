// The command line of `beamwright`: its subcommands, the form of --help, and errors in arguments.
//
// RunCli parses and runs the chosen command. CLI11 reports the first error only; a user would find
// the next one only after correcting it. So after an error, the arguments that it is about are
// removed (LeaveOut) and the rest is parsed again with a fresh program, until nothing is wrong or
// nothing can be removed; all errors are then printed together, with the nearest names of unknown
// flags and commands.
#include "client/cli/command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/answers.h"
#include "ops/base/names.h"

namespace beamwright::client {

namespace {

// How --help looks: descriptions broken into lines at a hundred columns, defaults and ranges in the
// descriptions instead of in the names' column.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

constexpr size_t kPageWidth = 100;
constexpr size_t kNameWidth = 32;

HelpFormatter::HelpFormatter() {
  column_width(kNameWidth);
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

// The base class puts an empty line between groups and another before each.
std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  const bool is_first = is_positional || group == "Options";
  const std::string text = CLI::Formatter::make_group(group, is_positional, std::move(options));
  return is_first ? text : text.substr(1);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string& type = option->get_type_name();
  return option->get_positional() || option->get_type_size() == 0 || type.empty() ? "" : " " + type;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string wrapped;
  size_t line_width = 0;
  for (absl::string_view word :
       absl::StrSplit(option->get_description(), ' ', absl::SkipWhitespace())) {
    if (line_width > 0 && line_width + 1 + word.size() > kPageWidth - kNameWidth) {
      wrapped += "\n";
      line_width = 0;
    }
    absl::StrAppend(&wrapped, line_width > 0 ? " " : "", word);
    line_width += word.size() + (line_width > 0 ? 1 : 0);
  }
  return wrapped;
}

std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

struct Program {
  std::unique_ptr<CLI::App> app;
  std::vector<Command> commands;

  const Command* chosen() const {
    const auto it = std::find_if(commands.begin(), commands.end(),
                                 [](const Command& command) { return command.app->parsed(); });
    return it == commands.end() ? nullptr : &*it;
  }
};

Program MakeProgram() {
  auto app = std::make_unique<CLI::App>(
      "Talks to a Beamwright server: decodes, translates, explains, scores, asks about its "
      "models, measures it.",
      "beamwright");
  app->formatter(std::make_shared<HelpFormatter>());
  app->set_help_flag("-h,--help", "Print this and exit.");
  app->set_version_flag("--version", "beamwright " BEAMWRIGHT_VERSION,
                        "Print the version and exit.");
  app->require_subcommand(1);
  app->footer(
      "'beamwright help COMMAND' explains a command.\n"
      "Example: beamwright decode --server localhost:8001 --beam-size 5 --n-best 3 hello");
  std::vector<Command> commands = {
      AddDecodeCommand(*app),     AddRecognizeCommand(*app), AddTranslateCommand(*app),
      AddExplainCommand(*app),    AddScoreCommand(*app),     AddAlignCommand(*app),
      AddModelsCommand(*app),     AddHealthCommand(*app),    AddLoadTestCommand(*app),
      AddStreamTestCommand(*app), AddLoadMergeCommand(*app), AddCapacityCommand(*app)};
  return {std::move(app), std::move(commands)};
}

void Parse(Program& program, const std::vector<std::string>& arguments) {
  program.app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
}

bool IsOfUnknownFlags(const CLI::ParseError& error) {
  return error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
}

// Removes the arguments that an error is about from the command line, so that other errors are
// found. False: it is not known which they are.
bool LeaveOut(const CLI::ParseError& error, const CLI::App& command,
              std::vector<std::string>& arguments) {
  const size_t before = arguments.size();
  if (IsOfUnknownFlags(error)) {
    for (const std::string& extra : command.remaining()) {
      if (const auto it = std::find(arguments.begin(), arguments.end(), extra);
          it != arguments.end()) {
        arguments.erase(it);
      }
    }
    return arguments.size() < before;
  }
  const std::string what = error.what();
  const std::string flag = what.substr(0, what.find_first_of(": "));
  const CLI::Option* const option = command.get_option_no_throw(flag);
  if (option == nullptr || !absl::StartsWith(flag, "-")) {
    return false;
  }
  for (size_t i = 0; i < arguments.size();) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    // All the ways to write it, such as -n and --n-best.
    if (!absl::StartsWith(name, "-") || command.get_option_no_throw(name) != option) {
      ++i;
      continue;
    }
    const bool has_value = name.size() == arguments[i].size() && option->get_type_size() > 0 &&
                           i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--");
    arguments.erase(arguments.begin() + static_cast<int64_t>(i),
                    arguments.begin() + static_cast<int64_t>(i) + (has_value ? 2 : 1));
  }
  return arguments.size() < before;
}

// A command line that names no command, or one that does not exist.
int NoCommand(const Program& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) {
    names.push_back(command.app->get_name());
  }
  const std::string given = arguments.empty() ? "" : Printable(arguments[0]);
  const std::string meant = arguments.empty() ? "" : NearestName(arguments[0], names);
  const std::string last = names.back();
  names.pop_back();
  return UsageError(
      *program.app,
      absl::StrCat(given.empty()                  ? "a command is missing"
                   : absl::StartsWith(given, "-") ? absl::StrCat("there is no flag ", given)
                                                  : absl::StrCat("there is no command ", given),
                   meant.empty() ? "" : absl::StrCat(" (did you mean ", meant, "?)"),
                   "; there are ", absl::StrJoin(names, ", "), " and ", last));
}

// "help decode" is "decode --help". False: there is no such command.
bool TakeHelp(const Program& program, std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "help") {
    return true;
  }
  arguments.erase(arguments.begin());
  const bool known =
      arguments.empty() || absl::StartsWith(arguments[0], "-") ||
      std::any_of(program.commands.begin(), program.commands.end(),
                  [&](const Command& command) { return command.app->get_name() == arguments[0]; });
  arguments.emplace_back("--help");
  return known;
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
  constexpr size_t kMostFaults = 20;
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string> faults;
  while (true) {
    Program program = MakeProgram();
    if (!TakeHelp(program, arguments)) {
      return NoCommand(program, arguments);
    }
    try {
      Parse(program, arguments);
      if (faults.empty()) {
        const int code = program.chosen()->run();
        return std::cout.flush()
                   ? code
                   : Failure(*program.chosen()->app, "cannot write to standard output");
      }
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success) && faults.empty()) {
        return program.app->exit(error);  // --help or --version: printed
      }
      if (program.chosen() == nullptr) {
        return NoCommand(program, arguments);
      }
      const CLI::App& command = *program.chosen()->app;
      if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
        faults.push_back(absl::StrCat(Printable(error.what()),
                                      IsOfUnknownFlags(error) ? FlagSuggestions(command) : ""));
        if (faults.size() < kMostFaults && LeaveOut(error, command, arguments)) {
          continue;
        }
      }
    }
    return UsageError(
        *program.chosen()->app,
        absl::StrJoin(faults, absl::StrCat("\n", FullName(*program.chosen()->app), ": ")));
  }
}

}  // namespace beamwright::client
