#include "server/http/log_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <limits>
#include <map>

#include "engine/bundle/proto_text.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"

namespace beamwright::http {

absl::StatusOr<inference::LogSettingsRequest> ParseLogBody(const std::string& body) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body));
  google::protobuf::Struct object;
  if (!google::protobuf::util::JsonStringToMessage(body, &object).ok()) {
    return Invalid("the body is not a JSON object");
  }
  inference::LogSettingsRequest request;
  for (const auto& [name, value] : object.fields()) {
    auto& setting = (*request.mutable_settings())[name];
    const double number = value.number_value();
    if (value.has_bool_value()) {
      setting.set_bool_param(value.bool_value());
    } else if (value.has_string_value()) {
      setting.set_string_param(value.string_value());
    } else if (value.has_number_value() && number >= 0 && number == std::floor(number) &&
               number <= std::numeric_limits<uint32_t>::max()) {
      setting.set_uint32_param(static_cast<uint32_t>(number));
    } else {
      return Invalid("'", name, "' is not a bool, a whole number or a string");
    }
  }
  return request;
}

std::string WriteLogBody(const inference::LogSettingsResponse& settings) {
  // So that the order is always the same.
  const std::map<std::string, inference::LogSettingsResponse::SettingValue> by_name(
      settings.settings().begin(), settings.settings().end());
  JsonWriter json;
  json.BeginObject();
  for (const auto& [name, value] : by_name) {
    json.Key(name);
    if (value.has_bool_param()) {
      json.Bool(value.bool_param());
    } else if (value.has_uint32_param()) {
      json.Uint(value.uint32_param());
    } else {
      json.String(value.string_param());
    }
  }
  json.EndObject();
  return json.text() + "\n";
}

}  // namespace beamwright::http
