// Settings from three places: the command line, environment variables (BEAMWRIGHT_MAX_ROWS for
// --max-rows) and a file (--config), in this order of precedence.
//
// Parse: CLI11 reads the command line; values of the other places become arguments, for settings
// that no better place has, and everything is parsed again. Each value is first parsed alone
// (`trial`), so that an error names the place where it is set. A name that does not exist is an
// error with the nearest name; settings of earlier versions that are gone (kRetired) are ignored if
// they were off.
//
// Print writes all settings with their places as comments, in the form that --config reads.
#include "server/serving/settings.h"

#include <cstdlib>
#include <exception>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "ops/base/names.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

constexpr char kCommandLine[] = "command line";
constexpr char kConfig[] = "config";

// Flags that have no meaning outside the command line.
const std::set<std::string>& CommandLineOnly() {
  static const auto* names =
      new std::set<std::string>{"help", "version", "json", "check-config", "print-config"};
  return *names;
}

// Settings of earlier versions that are gone. Files that --print-config wrote contain all of them:
// the value that turned one off is ignored, any other is refused with what replaces the setting.
struct Retired {
  absl::string_view name;
  absl::string_view off;
  absl::string_view instead;
};
constexpr char kPortsFile[] =
    "since 0.2.0; the file of 'ports-file' lists the ports of all listeners";
constexpr Retired kRetired[] = {
    {"channelz-address", "none", "since 0.2.0; metrics, the access log and `ss` show connections"},
    {"port-file", "", kPortsFile},
    {"http-port-file", "", kPortsFile},
    {"metrics-port-file", "", kPortsFile},
    {"admin-port-file", "", kPortsFile},
};

// Whether the setting of `source` is one of those and was off; throws if it was not.
bool IsRetired(const CLI::ConfigItem& item, const std::string& source) {
  const auto* retired =
      absl::c_find_if(kRetired, [&](const Retired& one) { return one.name == item.name; });
  if (retired == std::end(kRetired)) {
    return false;
  }
  if (item.inputs != std::vector<std::string>{std::string(retired->off)}) {
    throw CLI::ConfigError(
        absl::StrCat(source, ": the setting '", item.name, "' is gone ", retired->instead));
  }
  return true;
}

std::string VariableOf(const std::string& name) {
  return absl::StrCat("BEAMWRIGHT_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

// CLI11 takes what stands between quotes of either kind as it is; only where both occur must some
// be escaped.
std::string Quoted(const std::string& text) {
  for (const char* quote : {"\"", "'"}) {
    if (!absl::StrContains(text, quote)) {
      return absl::StrCat(quote, text, quote);
    }
  }
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.push_back(option->get_single_name());
  }
  return names;
}

}  // namespace

Settings::Settings(CLI::App& app) : app_(app) {
  app_.add_option("--config", config_, "File of settings, one a line: max-rows = 512")
      ->type_name("FILE");
}

void Settings::ReadEnvironment(Values& values) const {
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = option->get_single_name();
    const std::string variable = VariableOf(name);
    const char* text = CommandLineOnly().count(name) > 0 ? nullptr : std::getenv(variable.c_str());
    if (text != nullptr) {
      values[name] = {absl::StrCat("environment variable ", variable),
                      {absl::StrCat("--", name, "=", text)}};
    }
  }
}

void Settings::ReadFile(const std::string& path, Values& values) const {
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const std::exception& error) {
    throw CLI::FileError(absl::StrCat("--config: cannot read '", path, "'"));
  }
  for (const CLI::ConfigItem& item : items) {
    const std::string source = absl::StrCat("file '", path, "'");
    if (!item.parents.empty()) {
      throw CLI::ConfigError(
          absl::StrCat(source, ": there are no sections, such as [", item.parents[0], "]"));
    }
    if (IsRetired(item, source)) {
      continue;
    }
    if (item.name == kConfig || CommandLineOnly().count(item.name) > 0 ||
        app_.get_option_no_throw("--" + item.name) == nullptr) {
      const std::string meant = NearestName(item.name, NamesOf(app_));
      throw CLI::ConfigError(absl::StrCat(source, ": there is no setting '", item.fullname(), "'",
                                          meant.empty() ? "" : "; did you mean ", meant,
                                          meant.empty() ? "" : "?"));
    }
    if (values.count(item.name) > 0) {
      throw CLI::ConfigError(absl::StrCat(source, ": '", item.name, "' is set twice"));
    }
    Value& value = values[item.name];
    value.source = source;
    for (const std::string& input : item.inputs) {
      value.arguments.push_back(absl::StrCat("--", item.name, "=", input));
    }
  }
}

void Settings::Parse(int argc, const char* const* argv,
                     const std::function<void(CLI::App&)>& add_options) {
  app_.parse(argc, argv);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const CLI::Option* option : app_.get_options()) {
    if (option->count() > 0) {
      sources_[option->get_single_name()] = kCommandLine;
    }
  }
  Values environment;
  Values file;
  ReadEnvironment(environment);
  if (config_.empty() && environment.count(kConfig) > 0) {
    config_ = std::getenv(VariableOf(kConfig).c_str());
  }
  if (!config_.empty()) {
    ReadFile(config_, file);
  }
  for (const Values* values : {&environment, &file}) {
    for (const auto& [name, value] : *values) {
      if (!sources_.emplace(name, value.source).second) {
        continue;  // a better source has it
      }
      CLI::App trial;
      Settings with_config(trial);
      add_options(trial);
      try {
        // CLI11 takes them from the back.
        trial.parse(std::vector<std::string>(value.arguments.rbegin(), value.arguments.rend()));
      } catch (const CLI::ParseError& error) {
        throw CLI::ValidationError(value.source, error.what());
      }
      arguments.insert(arguments.end(), value.arguments.begin(), value.arguments.end());
    }
  }
  app_.clear();
  app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
}

std::string Settings::Print() const {
  std::string text;
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = option->get_single_name();
    if (name == kConfig || CommandLineOnly().count(name) > 0) {
      continue;
    }
    const auto source = sources_.find(name);
    const bool many = option->get_items_expected_max() > 1;
    std::vector<std::string> values = option->results();
    if (values.empty() && !option->get_default_str().empty()) {
      values.push_back(option->get_default_str());
    }
    const std::string joined = absl::StrJoin(
        values, ", ",
        [](std::string* out, const std::string& value) { absl::StrAppend(out, Quoted(value)); });
    absl::StrAppend(&text, "# ", source == sources_.end() ? "default" : source->second, "\n",
                    values.empty() ? "# " : "", name, " = ",
                    many ? absl::StrCat("[", joined, "]") : joined, "\n");
  }
  return text;
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& address) {
  HostPort result;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > 65535) {
    return Invalid("'", address, "' is not a valid host:port");
  }
  result.host = address.substr(0, colon);
  if (result.host.size() > 1 && result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  }
  if (result.host.find_first_of("/ \t") != std::string::npos) {  // a URL
    return Invalid("'", address, "' is not a valid host:port");
  }
  return result;
}

std::string WithHost(const std::string& host, const std::string& address) {
  return absl::StrCat(host, address.substr(address.rfind(':')));
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace beamwright::serving
