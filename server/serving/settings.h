// Settings: flags from three sources, the command line before the environment before a file, with
// errors that name the source.
#ifndef BEAMWRIGHT_SERVER_SERVING_SETTINGS_H_
#define BEAMWRIGHT_SERVER_SERVING_SETTINGS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace beamwright::serving {

class Settings {
 public:
  // Of the options that `app` has; adds --config to them. `app` must outlive it.
  explicit Settings(CLI::App& app);

  // Parses into what the app's options are bound to; throws CLI::ParseError like CLI::App::parse.
  // `add_options` adds the same options to another app: with it values are tried one by one.
  void Parse(int argc, const char* const* argv, const std::function<void(CLI::App&)>& add_options);

  // Every setting with its value and source, as a file for --config. After Parse.
  std::string Print() const;

 private:
  struct Value {
    std::string source;                  // "environment variable BEAMWRIGHT_MAX_ROWS"
    std::vector<std::string> arguments;  // "--max-rows=64"
  };
  // By the option's name, without dashes.
  using Values = std::map<std::string, Value>;

  void ReadEnvironment(Values& values) const;
  void ReadFile(const std::string& path, Values& values) const;

  CLI::App& app_;
  std::string config_;
  std::map<std::string, std::string> sources_;  // of each option that is set
};

// HostPort: an address to listen on, in the words of the settings.

struct HostPort {
  std::string host;  // without the brackets around an IPv6 address; may be empty
  int port = 0;
};

// "host:port", "[::1]:port". InvalidArgument for what is neither.
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);

// The port of `address`, which is a host:port, on another host.
std::string WithHost(const std::string& host, const std::string& address);

// A host:port with the port that was taken.
std::string WithPort(const std::string& address, int port);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SETTINGS_H_
