#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "server/http/management_json.h"

namespace beamwright::http {
namespace {

using google::protobuf::Value;

// The one metric of a name with a label of this value.
const Value& Metric(const Value& status, const std::string& name, const std::string& label) {
  const Value& metrics = status.struct_value().fields().at("metrics");
  for (const Value& metric : metrics.struct_value().fields().at(name).list_value().values()) {
    for (const auto& [key, value] :
         metric.struct_value().fields().at("labels").struct_value().fields()) {
      if (value.string_value() == label) {
        return metric;
      }
    }
  }
  ADD_FAILURE() << name << " has no " << label;
  return Value::default_instance();
}

TEST(StatusJsonTest, SaysWhatTheMetricsSay) {
  serving::Metrics metrics;
  metrics.CountLoad("m", /*loaded=*/true, absl::Seconds(2));
  metrics.CountLoad("m", /*loaded=*/true, absl::Seconds(4));
  const HttpReply reply = StatusReply(metrics);
  EXPECT_THAT(reply.headers, testing::Contains(testing::Pair("Cache-Control", "no-store")));
  Value status;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(reply.body, &status).ok()) << reply.body;
  const auto& loads =
      Metric(status, "beamwright_model_loads_total", "success").struct_value().fields();
  EXPECT_EQ(loads.at("value").number_value(), 2);
  const auto& seconds =
      Metric(status, "beamwright_model_load_seconds", "m").struct_value().fields();
  EXPECT_EQ(seconds.at("count").number_value(), 2);
  EXPECT_EQ(seconds.at("sum").number_value(), 6);
  // Cumulative, and each bound a number.
  double before = 0;
  for (const Value& bucket : seconds.at("buckets").list_value().values()) {
    ASSERT_EQ(bucket.list_value().values_size(), 2);
    const double bound = bucket.list_value().values(0).number_value();
    const double count = bucket.list_value().values(1).number_value();
    EXPECT_EQ(count, bound < 2 ? 0 : bound < 4 ? 1 : 2) << bound;
    EXPECT_GE(count, before);
    before = count;
  }
  EXPECT_EQ(before, 2);
}

}  // namespace
}  // namespace beamwright::http
