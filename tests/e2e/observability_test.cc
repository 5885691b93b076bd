// What the server reports about calls: traces to a collector, log lines. Load reports, which gRPC's
// C++ clients keep to themselves, are looked at by tests/stock_clients/grpcurl.py.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <signal.h>

#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "google/protobuf/struct.pb.h"
#include "tests/e2e/collector.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;

constexpr char kTraceParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// One call with what a tracing client sends.
void CallWith(v1::DecodeService::Stub& stub, grpc::ClientContext& context) {
  context.AddMetadata("traceparent", kTraceParent);
  context.AddMetadata("x-request-id", "abc 1");
  v1::DecodeResponse response;
  const grpc::Status status = stub.Decode(&context, Request({"cat", "beam"}), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(ObservabilityTest, SpansReachACollector) {
  Collector collector;
  ServerProcess server({"--model-path", DefaultModel(), "--otlp-endpoint", collector.address()});
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  grpc::ClientContext context;
  CallWith(*stub, context);
  // This one is not traced.
  EXPECT_TRUE(Decode(*stub, Request({"cat"})).first.ok());
  server.Signal(SIGINT);  // sends what it has
  EXPECT_EQ(server.Wait(), 0);
  const std::vector<Collector::Span> spans = collector.spans();
  ASSERT_EQ(spans.size(), 9u);  // the call, and four for each source
  EXPECT_EQ(collector.service(), "beamwright-server");
  EXPECT_EQ(absl::BytesToHexString(spans[0].trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(absl::BytesToHexString(spans[0].parent_span_id()), "00f067aa0ba902b7");
  EXPECT_EQ(spans[0].name(), "Decode");
}

TEST(ObservabilityTest, ACollectorThatIsAwayCostsNoCall) {
  ServerProcess server(
      {"--model-path", DefaultModel(), "--otlp-endpoint", "127.0.0.1:1", "--trace-rate", "1"});
  const auto stub = v1::DecodeService::NewStub(Connect(server.address()));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Decode(*stub, Request({"cat"})).first.ok());
  }
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.log(), HasSubstr("the trace collector takes no spans"));
}

TEST(ObservabilityTest, EveryLineOfAJsonLogIsAnObject) {
  ServerProcess server(
      {"--model-path", DefaultModel(), "--log-format", "json", "--access-log-sample", "1"});
  const auto stub = v1::DecodeService::NewStub(Connect("127.0.0.1:" + [&server] {
    // "ready on" stands inside a JSON string here.
    return std::to_string(server.WaitForPort());
  }()));
  grpc::ClientContext context;
  CallWith(*stub, context);
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  std::istringstream lines(server.log());
  int calls = 0;
  for (std::string line; std::getline(lines, line);) {
    google::protobuf::Struct object;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
    EXPECT_EQ(object.fields().count("time"), 1u);
    if (object.fields().at("message").string_value() == "call") {
      ++calls;
      EXPECT_EQ(object.fields().at("request_id").string_value(), "abc 1");
      EXPECT_EQ(object.fields().at("model").string_value(), "g2p-en");
      EXPECT_EQ(object.fields().at("sources").number_value(), 2);
    }
  }
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(absl::StrContains(server.log(), "cat"));  // no content
}

}  // namespace
}  // namespace beamwright::e2e
