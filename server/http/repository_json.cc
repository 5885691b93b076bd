#include "server/http/repository_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "engine/bundle/proto_text.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::http {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

absl::StatusOr<Struct> ParseObject(const std::string& body) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body));
  Struct object;
  if (!body.empty() && !google::protobuf::util::JsonStringToMessage(body, &object).ok()) {
    return Invalid("the body is not a JSON object");
  }
  return object;
}

}  // namespace

absl::StatusOr<inference::RepositoryIndexRequest> ParseIndexBody(const std::string& body) {
  BW_ASSIGN_OR_RETURN(const Struct object, ParseObject(body));
  inference::RepositoryIndexRequest request;
  if (const auto ready = object.fields().find("ready"); ready != object.fields().end()) {
    if (!ready->second.has_bool_value()) {
      return status::InvalidField("ready", "is neither true nor false");
    }
    request.set_ready(ready->second.bool_value());
  }
  return request;
}

absl::StatusOr<ControlParameters> ParseControlBody(const std::string& body) {
  BW_ASSIGN_OR_RETURN(const Struct object, ParseObject(body));
  ControlParameters parameters;
  const auto found = object.fields().find("parameters");
  if (found == object.fields().end()) {
    return parameters;
  }
  if (!found->second.has_struct_value()) {
    return status::InvalidField("parameters", "is not an object");
  }
  for (const auto& [name, value] : found->second.struct_value().fields()) {
    inference::ModelRepositoryParameter& parameter = parameters[name];
    const double number = value.number_value();
    if (value.has_bool_value()) {
      parameter.set_bool_param(value.bool_value());
    } else if (value.has_string_value()) {
      parameter.set_string_param(value.string_value());
    } else if (value.has_number_value() && number == std::floor(number) &&
               std::abs(number) < 0x1p53) {
      parameter.set_int64_param(static_cast<int64_t>(number));
    } else {
      return status::InvalidField(absl::StrCat("parameters['", name, "']"),
                                  "is not a bool, a whole number or a string");
    }
  }
  return parameters;
}

}  // namespace beamwright::http
