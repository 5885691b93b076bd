#include "server/http/status_json.h"

#include <cmath>

#include "ops/base/json_writer.h"
#include "server/http/replies.h"

namespace beamwright::http {
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
