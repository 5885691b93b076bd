// Reads the parameters of a request of the Open Inference protocol into v1::DecodeOptions. A
// parameter whose name is a field of DecodeOptions sets that field; `timeout` and `priority` have
// the protocol's meaning; names that clients set for other servers (kIgnored) are ignored; any
// other name is an error, since a misspelled option would be ignored otherwise.
//
// A parameter is an integer, a double, a bool or a string. A scalar field accepts every form that
// holds its value exactly (WholeNumber, Number): JSON has only doubles, and some clients send all
// values as strings. Lists and messages are strings in JSON form, read with the same bounds and
// strictness as a JSON request (SetFromJson).
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/request/tenant.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/oip/infer.h"
#include "server/oip/service.h"

namespace beamwright::oip {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using inference::InferParameter;

// Parameters that clients set for servers that schedule sequences or priorities, or for themselves:
// they mean nothing here and are no reason to refuse a request.
constexpr absl::string_view kIgnored[] = {"sequence_id",
                                          "sequence_start",
                                          "sequence_end",
                                          "binary_data_output",
                                          "triton_enable_empty_final_response",
                                          "headers"};

std::string OptionNames() {
  std::vector<std::string> names;
  const Descriptor* type = v1::DecodeOptions::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    names.push_back(type->field(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// A parameter as a number. False: not a number. Integers beyond 2^53 lose digits: see
// WholeNumber.
bool Number(const InferParameter& parameter, double& value) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kInt64Param:
      value = static_cast<double>(parameter.int64_param());
      return true;
    case InferParameter::kUint64Param:
      value = static_cast<double>(parameter.uint64_param());
      return true;
    case InferParameter::kDoubleParam:
      value = parameter.double_param();
      return true;
    case InferParameter::kStringParam:
      return absl::SimpleAtod(parameter.string_param(), &value);
    default:
      return false;
  }
}

// A parameter as a whole number in the range of T; false if it is not.
template <typename T>
bool WholeNumber(const InferParameter& parameter, T& value) {
  const auto fits = [&value](auto number) {
    if (!std::in_range<T>(number)) {
      return false;
    }
    value = static_cast<T>(number);
    return true;
  };
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kInt64Param:
      return fits(parameter.int64_param());
    case InferParameter::kUint64Param:
      return fits(parameter.uint64_param());
    case InferParameter::kStringParam:
      return absl::SimpleAtoi(parameter.string_param(), &value);
    case InferParameter::kDoubleParam: {
      // JSON has one kind of number only.
      const double number = parameter.double_param();
      return std::abs(number) < 0x1p53 && number == std::floor(number) &&
             fits(static_cast<int64_t>(number));
    }
    default:
      return false;
  }
}

// Sets a list or a message: "[1, 2]" or {"...": ...}, in protobuf's JSON form.
absl::Status SetFromJson(const FieldDescriptor& field, const InferParameter& parameter,
                         v1::DecodeOptions& options) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(parameter.string_param()));
  google::protobuf::Struct json;
  if (!parameter.has_string_param() ||
      !google::protobuf::util::JsonStringToMessage(parameter.string_param(),
                                                   &(*json.mutable_fields())[field.name()])
           .ok()) {
    return Invalid("takes a string in JSON form");
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(parameter.string_param()));
  std::string text;
  v1::DecodeOptions parsed;
  if (!google::protobuf::util::MessageToJsonString(json, &text).ok() ||
      !google::protobuf::util::JsonStringToMessage(text, &parsed).ok()) {
    return Invalid(
        "its JSON is not a valid ", field.is_repeated() ? "list of " : "",
        field.message_type() != nullptr ? field.message_type()->name() : field.cpp_type_name());
  }
  options.MergeFrom(parsed);
  return absl::OkStatus();
}

absl::Status Wrong(absl::string_view wanted) { return Invalid("takes ", wanted); }

template <typename T>
absl::Status SetWhole(const FieldDescriptor& field, const InferParameter& parameter,
                      v1::DecodeOptions& options,
                      void (Reflection::*set)(google::protobuf::Message*, const FieldDescriptor*, T)
                          const) {
  T value = 0;
  if (!WholeNumber(parameter, value)) {
    return Wrong(absl::StrCat("a whole number from ", std::numeric_limits<T>::min(), " to ",
                              std::numeric_limits<T>::max()));
  }
  (options.GetReflection()->*set)(&options, &field, value);
  return absl::OkStatus();
}

absl::Status SetBool(const FieldDescriptor& field, const InferParameter& parameter,
                     v1::DecodeOptions& options) {
  bool value = parameter.bool_param();
  if (!parameter.has_bool_param() &&
      !(parameter.has_string_param() && absl::SimpleAtob(parameter.string_param(), &value))) {
    return Wrong("true or false");
  }
  options.GetReflection()->SetBool(&options, &field, value);
  return absl::OkStatus();
}

absl::Status SetScalar(const FieldDescriptor& field, const InferParameter& parameter,
                       v1::DecodeOptions& options) {
  const Reflection& reflection = *options.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return SetWhole<int32_t>(field, parameter, options, &Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return SetWhole<int64_t>(field, parameter, options, &Reflection::SetInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return SetWhole<uint32_t>(field, parameter, options, &Reflection::SetUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetWhole<uint64_t>(field, parameter, options, &Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetBool(field, parameter, options);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = parameter.has_string_param()
                              ? bundle::FindEnumValue(field.enum_type(), parameter.string_param())
                              : nullptr;
      if (value == nullptr) {
        return Wrong(absl::StrCat("one of ", bundle::EnumNames(field.enum_type())));
      }
      reflection.SetEnum(&options, &field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (!parameter.has_string_param()) {
        return Wrong("a string");
      }
      reflection.SetString(&options, &field, parameter.string_param());
      return absl::OkStatus();
    default: {
      double value = 0;
      if (!Number(parameter, value)) {
        return Wrong("a number");
      }
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        reflection.SetDouble(&options, &field, value);
      } else {
        reflection.SetFloat(&options, &field, static_cast<float>(value));
      }
      return absl::OkStatus();
    }
  }
}

absl::Status ReadReserved(const std::string& name, const InferParameter& parameter,
                          Parameters& result) {
  if (name == "timeout") {
    int64_t microseconds = 0;
    if (!WholeNumber(parameter, microseconds) || microseconds < 0) {
      return Wrong("a whole number of microseconds");
    }
    // Zero is how clients say "none".
    result.timeout =
        microseconds == 0 ? absl::InfiniteDuration() : absl::Microseconds(microseconds);
    return absl::OkStatus();
  }
  if (name == "priority") {
    uint64_t priority = 0;
    if (!WholeNumber(parameter, priority)) {
      return Wrong("a whole number");
    }
    result.priority = static_cast<int>(std::min<uint64_t>(priority, engine::kLowestPriority));
    return absl::OkStatus();
  }
  if (std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored)) {
    return absl::OkStatus();
  }
  return Invalid("is not known; known are ", OptionNames(), ", timeout and priority");
}

}  // namespace

absl::StatusOr<Parameters> ReadParameters(
    const google::protobuf::Map<std::string, InferParameter>& parameters) {
  Parameters result;
  for (const auto& [name, parameter] : parameters) {
    const FieldDescriptor* field = v1::DecodeOptions::descriptor()->FindFieldByName(name);
    absl::Status status;
    if (field == nullptr) {
      status = ReadReserved(name, parameter, result);
    } else if (field->is_repeated() || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      status = SetFromJson(*field, parameter, result.options);
    } else {
      status = SetScalar(*field, parameter, result.options);
    }
    if (!status.ok()) {
      return status::AtField(status, absl::StrCat("parameters['", name, "']"));
    }
  }
  return result;
}

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
