// JSON of calls that manage a server. Requests are small and open, so each is parsed into a Struct,
// after the bounds of JSON, and picked apart by hand: ParseIndexBody, ParseControlBody (parameters
// of load and unload) and ParseLogBody say which field has the wrong type. Answers: WriteLogBody,
// and StatusReply, every metric as JSON for the page.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <limits>
#include <map>

#include "engine/bundle/proto_text.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/http/replies.h"
#include "server/http/routes.h"

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

namespace {

void WriteHistogram(const prometheus::ClientMetric::Histogram& histogram, JsonWriter& json) {
  json.Key("count").Uint(histogram.sample_count);
  json.Key("sum").Double(histogram.sample_sum);
  json.Key("buckets").BeginArray();
  for (const auto& bucket : histogram.bucket) {
    if (std::isfinite(bucket.upper_bound)) {
      json.BeginArray().Double(bucket.upper_bound).Uint(bucket.cumulative_count).EndArray();
    }
  }
  json.EndArray();
}

void WriteMetric(const prometheus::ClientMetric& metric, prometheus::MetricType type,
                 JsonWriter& json) {
  json.BeginObject();
  json.Key("labels").BeginObject();
  for (const auto& label : metric.label) {
    json.Key(label.name).String(label.value);
  }
  json.EndObject();
  if (type == prometheus::MetricType::Histogram) {
    WriteHistogram(metric.histogram, json);
  } else {
    json.Key("value").Double(type == prometheus::MetricType::Counter ? metric.counter.value
                                                                     : metric.gauge.value);
  }
  json.EndObject();
}

}  // namespace

HttpReply StatusReply(const serving::Metrics& metrics) {
  JsonWriter json;
  json.BeginObject();
  json.Key("metrics").BeginObject();
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    json.Key(family.name).BeginArray();
    for (const prometheus::ClientMetric& metric : family.metric) {
      WriteMetric(metric, family.type, json);
    }
    json.EndArray();
  }
  json.EndObject().EndObject();
  HttpReply reply = JsonReply(json);
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

}  // namespace beamwright::http
