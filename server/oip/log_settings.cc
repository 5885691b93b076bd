#include "server/oip/log_settings.h"

#include <spdlog/spdlog.h>

#include <map>
#include <string>

#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::oip {
namespace {

using Value = inference::LogSettingsRequest::SettingValue;

// The levels that are on, by setting, from the most severe to the least.
constexpr struct {
  const char* name;
  spdlog::level::level_enum level;
} kLevels[] = {{"log_error", spdlog::level::err},
               {"log_warning", spdlog::level::warn},
               {"log_info", spdlog::level::info}};
constexpr char kVerbose[] = "log_verbose_level";

absl::StatusOr<bool> ReadBool(const std::string& name, const Value& value) {
  if (!value.has_bool_param()) {
    return status::InvalidField("settings", "'", name, "' must be a bool");
  }
  return value.bool_param();
}

}  // namespace

absl::Status ChangeLogSettings(const inference::LogSettingsRequest& request) {
  const spdlog::level::level_enum now = spdlog::get_level();
  std::map<std::string, bool> on;
  for (const auto& [name, level] : kLevels) {
    on[name] = now <= level;
  }
  bool verbose = now <= spdlog::level::debug;
  for (const auto& [name, value] : request.settings()) {
    if (on.count(name) > 0) {
      BW_ASSIGN_OR_RETURN(on[name], ReadBool(name, value));
    } else if (name == kVerbose) {
      if (!value.has_uint32_param()) {
        return status::InvalidField("settings", "'", name, "' must be a whole number");
      }
      verbose = value.uint32_param() > 0;
    } else if (name == "log_file" || name == "log_format") {
      return absl::UnimplementedError(
          absl::StrCat("settings: '", name, "' is set when the server starts"));
    } else {
      return status::InvalidField(
          "settings", "there is no '", name,
          "'; there are log_error, log_warning, log_info and log_verbose_level");
    }
  }
  spdlog::level::level_enum level = spdlog::level::off;
  for (const auto& [name, its_level] : kLevels) {
    level = on[name] ? its_level : level;
  }
  spdlog::set_level(verbose ? spdlog::level::debug : level);
  return absl::OkStatus();
}

void TellLogSettings(inference::LogSettingsResponse& response) {
  const spdlog::level::level_enum now = spdlog::get_level();
  auto& settings = *response.mutable_settings();
  for (const auto& [name, level] : kLevels) {
    settings[name].set_bool_param(now <= level);
  }
  settings[kVerbose].set_uint32_param(now <= spdlog::level::debug ? 1 : 0);
  settings["log_file"].set_string_param("");
  settings["log_format"].set_string_param("default");
}

}  // namespace beamwright::oip
