// JSON of calls that manage a server: log settings, the model repository, status.

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

TEST(LogJsonTest, ReadsAndWritesSettings) {
  const auto request = ParseLogBody(R"({"log_info": true, "log_verbose_level": 2, "x": "y"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->settings().at("log_info").bool_param());
  EXPECT_EQ(request->settings().at("log_verbose_level").uint32_param(), 2u);
  EXPECT_EQ(request->settings().at("x").string_param(), "y");
  inference::LogSettingsResponse response;
  (*response.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  (*response.mutable_settings())["log_info"].set_bool_param(true);
  (*response.mutable_settings())["log_file"].set_string_param("a\"b");
  EXPECT_EQ(WriteLogBody(response),
            "{\"log_file\":\"a\\\"b\",\"log_info\":true,\"log_verbose_level\":1}\n");
}

TEST(LogJsonTest, RefusesWhatIsNoSetting) {
  for (const char* wrong : {"", "[]", "{\"a\": null}", "{\"a\": -1}", "{\"a\": 1.5}",
                            "{\"a\": 4294967296}", "{\"a\": [true]}"}) {
    EXPECT_EQ(ParseLogBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

using ::testing::HasSubstr;

TEST(RepositoryJsonTest, AnIndexMayBeOfWhatIsReady) {
  EXPECT_TRUE(ParseIndexBody(R"({"ready": true})")->ready());
  for (const char* all : {"", "{}", R"({"ready": false})"}) {
    EXPECT_FALSE(ParseIndexBody(all)->ready()) << all;
  }
  for (const char* wrong : {"ready", "[]", "{", R"({"ready": "yes"})"}) {
    EXPECT_EQ(ParseIndexBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(RepositoryJsonTest, ParametersOfLoadsAreRead) {
  const auto parameters =
      ParseControlBody(R"({"parameters": {"config": "{}", "unload_dependents": true, "n": 3}})");
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(parameters->at("config").string_param(), "{}");
  EXPECT_TRUE(parameters->at("unload_dependents").bool_param());
  EXPECT_EQ(parameters->at("n").int64_param(), 3);
  for (const char* none : {"", "{}", R"({"parameters": {}})"}) {
    EXPECT_TRUE(ParseControlBody(none)->empty()) << none;
  }
  for (const char* wrong :
       {"garbage", "[]", R"({"parameters": []})", R"({"parameters": {"a": 1.5}})"}) {
    EXPECT_EQ(ParseControlBody(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(std::string(ParseControlBody(R"({"parameters": {"config": {}}})").status().message()),
              HasSubstr("parameters['config']: is not a bool"));
}

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
