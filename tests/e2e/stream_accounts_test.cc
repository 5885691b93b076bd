// Streams of sound, over gRPC and over WebSocket, are accounted for as all other calls are: the
// access log has a line for each with its outcome, the metrics count the same, traces have them
// below their clients' spans, and tokens and tenants' limits hold, also where they change while a
// stream goes on.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <sstream>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/recognize.grpc.pb.h"
#include "google/protobuf/struct.pb.h"
#include "tests/e2e/becomes.h"
#include "tests/e2e/collector.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/engine/sound/tones_model.h"
#include "tests/server/websocket/raw_client.h"

namespace beamwright::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using websocket::RawClient;

constexpr char kStreamParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr int kPolicy = 1008;
constexpr int kTryAgainLater = 1013;

// What a WebSocket client received about a source: its last answer, and the code that closed the
// connection or 0.
struct WebSocketAnswer {
  std::string last;
  int close_code = 0;
};

WebSocketAnswer ReadAnswers(RawClient& client) {
  WebSocketAnswer told;
  std::pair<int, std::string> frame = client.ReadFrame();
  for (; frame.first == websocket::kText && frame.second != "Done!"; frame = client.ReadFrame()) {
    told.last = frame.second;
  }
  if (frame.first == websocket::kClose) {
    told.close_code = static_cast<unsigned char>(frame.second[0]) << 8 |
                      static_cast<unsigned char>(frame.second[1]);
  }
  return told;
}

void Say(RawClient& client, const std::vector<int>& labels) {
  client.SendMessage(websocket::kBinary, sound::AsF32(sound::Tones(labels)));
}

WebSocketAnswer SayAll(RawClient& client, const std::vector<int>& labels) {
  Say(client, labels);
  client.SendMessage(websocket::kText, "Done");
  return ReadAnswers(client);
}

std::string Bearer(const std::string& token) {
  return absl::StrCat("Authorization: Bearer ", token, "\r\n");
}

// A call over gRPC that has begun and goes on.
class Stream {
 public:
  Stream(v1::RecognizeService::Stub& stub, const std::string& token,
         const std::string& model = "tones", absl::Duration timeout = absl::Minutes(2)) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    context_.AddMetadata("authorization", "Bearer " + token);
    context_.AddMetadata("traceparent", kStreamParent);
    context_.AddMetadata("x-request-id", absl::StrCat("of ", token));
    stream_ = stub.Recognize(&context_);
    v1::RecognizeRequest request;
    request.mutable_config()->set_model(model);
    request.mutable_config()->set_provisional(true);
    request.mutable_config()->mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
    stream_->Write(request);
  }

  Stream& Say(const std::vector<int>& labels) {
    v1::RecognizeRequest request;
    request.set_audio(sound::AsF32(sound::Tones(labels)));
    stream_->Write(request);
    return *this;
  }
  void SayBytes(const std::string& bytes) {
    v1::RecognizeRequest request;
    request.set_audio(bytes);
    stream_->Write(request);
  }
  // Waits until the engine says something of it.
  bool IsHeard() {
    v1::RecognizeResponse response;
    return stream_->Read(&response) && response.has_provisional();
  }
  void Cancel() { context_.TryCancel(); }
  // The end of the source, and the status that the call has.
  grpc::Status Finish() {
    stream_->WritesDone();
    return End();
  }
  grpc::Status End() {
    v1::RecognizeResponse response;
    while (stream_->Read(&response)) {
      for (const v1::RecognizedSegment& segment : response.segments()) {
        absl::StrAppend(&text_, segment.hypotheses(0).text());
      }
    }
    return stream_->Finish();
  }
  const std::string& text() const { return text_; }
  bool has_pushback() const {
    return context_.GetServerTrailingMetadata().count("grpc-retry-pushback-ms") > 0;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RecognizeRequest, v1::RecognizeResponse>> stream_;
  std::string text_;
};

class StreamAccountsTest : public ::testing::Test {
 protected:
  StreamAccountsTest() {
    sound::WriteTonesChunksBundle(temp_.At("models"), "tones");
    sound::WriteTonesBundle(temp_.At("models"), "whole");  // read when it is complete
    temp_.Write("tokens", TokenLine("d", "ROLE_DECODE") + TokenLine("e", "ROLE_DECODE") +
                              TokenLine("o", "ROLE_OBSERVE"));
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--model-repository", temp_.At("models"), "--websocket-address",
                      "127.0.0.1:0", "--websocket-model", "tones", "--auth-token-file",
                      temp_.At("tokens"), "--security-refresh", "20ms"});
    server_ = std::make_unique<ServerProcess>(arguments);
    ASSERT_GT(server_->WaitForPort(), 0) << server_->log();
    stub_ = v1::RecognizeService::NewStub(Connect(server_->address()));
    port_ = server_->websocket_port();
  }

  // The server's log, whole, once it has ended in order.
  std::string StopAndRead() {
    server_->Signal(SIGINT);
    EXPECT_EQ(server_->Wait(), 0);
    return server_->log();
  }

  bundle::TempFolder temp_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<v1::RecognizeService::Stub> stub_;
  int port_ = 0;
};

// By protocol, code and model.
using Counts = std::map<std::tuple<std::string, std::string, std::string>, int>;

TEST_F(StreamAccountsTest, EveryStreamIsALineOfTheAccessLogAndCountedOnce) {
  Start({"--log-format", "json", "--access-log-sample", "1"});
  Counts expected;
  const auto expect = [&](const std::string& protocol, const std::string& code,
                          const std::string& model) {
    ++expected[{protocol, code, model}];
  };

  for (int i = 0; i < 2; ++i) {
    Stream stream(*stub_, "d");
    EXPECT_TRUE(stream.Say({3, 17}).Finish().ok());
    EXPECT_EQ(stream.text(), "t3 t17");
    expect("grpc", "OK", "tones");
  }
  for (const char* model : {"tones", "whole"}) {
    // No frame.
    EXPECT_EQ(Stream(*stub_, "d", model).Finish().error_code(), grpc::INVALID_ARGUMENT);
    expect("grpc", "INVALID_ARGUMENT", model);
  }
  {
    Stream stream(*stub_, "d");
    stream.Say({3}).SayBytes("half");
    stream.SayBytes("no sample");
    EXPECT_EQ(stream.End().error_code(), grpc::INVALID_ARGUMENT);
    expect("grpc", "INVALID_ARGUMENT", "tones");
  }
  EXPECT_EQ(Stream(*stub_, "d", "none").End().error_code(), grpc::NOT_FOUND);
  expect("grpc", "NOT_FOUND", "");
  EXPECT_EQ(Stream(*stub_, "wrong").End().error_code(), grpc::UNAUTHENTICATED);
  expect("grpc", "UNAUTHENTICATED", "");
  EXPECT_EQ(Stream(*stub_, "o").End().error_code(), grpc::PERMISSION_DENIED);
  expect("grpc", "PERMISSION_DENIED", "");
  {
    Stream stream(*stub_, "d");
    ASSERT_TRUE(stream.Say({3, 17}).IsHeard());
    stream.Cancel();
    EXPECT_EQ(stream.End().error_code(), grpc::CANCELLED);
    expect("grpc", "CANCELLED", "tones");
  }
  {
    // Long enough for its configuration to be read.
    Stream stream(*stub_, "d", "tones", absl::Seconds(2));
    EXPECT_EQ(stream.Say({3, 17}).End().error_code(), grpc::DEADLINE_EXCEEDED);
    expect("grpc", "DEADLINE_EXCEEDED", "tones");
  }

  const std::string mine = Bearer("d") + "x-request-id: of d\r\n";
  {
    RawClient client(port_);
    EXPECT_THAT(client.Open("/", mine), StartsWith("HTTP/1.1 101 "));
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(SayAll(client, {8, 12}).last, HasSubstr("\"text\":\"t8 t12\""));
      expect("websocket", "OK", "tones");
    }
  }
  {
    RawClient client(port_);
    client.Open("/", mine);
    Say(client, {8});
    client.SendMessage(websocket::kBinary, "half a sample");
    EXPECT_THAT(ReadAnswers(client).last, HasSubstr("INVALID_ARGUMENT"));
    expect("websocket", "INVALID_ARGUMENT", "tones");
  }
  {
    RawClient client(port_);
    client.Open("/?timeout_ms=300", mine);
    Say(client, {8});
    EXPECT_THAT(ReadAnswers(client).last, HasSubstr("DEADLINE_EXCEEDED"));
    expect("websocket", "DEADLINE_EXCEEDED", "tones");
  }
  {
    RawClient client(port_);
    client.Open("/", mine);
    Say(client, {8, 9});
    EXPECT_EQ(client.ReadFrame().first, websocket::kText);  // it is heard, and goes
    expect("websocket", "CANCELLED", "tones");
  }
  for (const auto& [target, headers, answer, code] :
       {std::tuple("/", Bearer("wrong"), "HTTP/1.1 401 ", "UNAUTHENTICATED"),
        std::tuple("/", std::string(), "HTTP/1.1 401 ", "UNAUTHENTICATED"),
        std::tuple("/", Bearer("o"), "HTTP/1.1 403 ", "PERMISSION_DENIED"),
        std::tuple("/?model=none", mine, "HTTP/1.1 404 ", "NOT_FOUND"),
        std::tuple("/?word=a", mine, "HTTP/1.1 400 ", "INVALID_ARGUMENT")}) {
    EXPECT_THAT(RawClient(port_).Open(target, headers), StartsWith(answer));
    expect("websocket", code, "");
  }

  // Calls whose clients have gone are counted at the next step.
  EXPECT_TRUE(BackToZero(server_->metrics_port()));
  const auto counted = [&] { return Scrape(server_->metrics_port()); };
  const auto num_counted = [&] {
    return Sum(counted(), "beamwright_requests_total", "method=\"Recognize\"");
  };
  double num_expected = 0;
  for (const auto& [key, count] : expected) {
    num_expected += count;
  }
  EXPECT_TRUE(Becomes([&] { return num_counted() == num_expected; })) << num_counted();
  Counts metrics;
  const Samples samples = counted();
  for (const auto& [key, count] : expected) {
    const auto& [protocol, code, model] = key;
    for (const auto& [name, value] : samples) {
      if (absl::StartsWith(name, "beamwright_requests_total{") &&
          absl::StrContains(name, absl::StrCat("protocol=\"", protocol, "\"")) &&
          absl::StrContains(name, absl::StrCat("code=\"", code, "\"")) &&
          absl::StrContains(name, absl::StrCat("model=\"", model, "\""))) {
        metrics[key] += static_cast<int>(value);
      }
    }
  }
  // A client that goes at its deadline looks like one that cancels where its call was long on its
  // way: the server's deadline is later by as much.
  if (metrics[{"grpc", "DEADLINE_EXCEEDED", "tones"}] == 0) {
    metrics.erase({"grpc", "DEADLINE_EXCEEDED", "tones"});
    expected.erase({"grpc", "DEADLINE_EXCEEDED", "tones"});
    expect("grpc", "CANCELLED", "tones");
  }
  EXPECT_EQ(metrics, expected);
  EXPECT_EQ(Sum(samples, "beamwright_websocket_connections"), 0);
  const auto refused = [&](const std::string& reason) {
    return Sum(samples, "beamwright_requests_rejected_total", "reason=\"" + reason + "\"");
  };
  EXPECT_EQ(refused("unauthenticated"), 3);
  EXPECT_EQ(refused("permission_denied"), 2);
  EXPECT_EQ(refused("unknown_model"), 2);

  const std::string log = StopAndRead();
  Counts logged;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    google::protobuf::Struct object;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
    const auto field = [&object](const char* name) {
      const auto it = object.fields().find(name);
      return it == object.fields().end() ? google::protobuf::Value() : it->second;
    };
    if (field("message").string_value() != "call") {
      continue;
    }
    EXPECT_EQ(field("method").string_value(), "Recognize");
    const std::string code = field("code").string_value();
    const std::string model = field("model").string_value();
    ++logged[{field("protocol").string_value(), code, model}];
    EXPECT_EQ(field("version").string_value(), model.empty() ? "" : "1") << line;
    EXPECT_EQ(field("sources").number_value(), model.empty() ? 0 : 1) << line;
    EXPECT_EQ(field("failed_sources").number_value(), model.empty() || code == "OK" ? 0 : 1)
        << line;
    if (!model.empty()) {
      EXPECT_EQ(field("request_id").string_value(), "of d") << line;
      EXPECT_GT(field("ms").number_value(), 0) << line;
    }
    if (code == "OK") {
      EXPECT_GT(field("compute_ms").number_value(), 0) << line;
    }
  }
  EXPECT_EQ(logged, expected);
  EXPECT_FALSE(absl::StrContains(log, "t17"));  // no content
}

// A read that fails because the client is gone is not the end of its source: what it has sent is
// not searched to the end and counted as answered, nor found to be too little.
TEST_F(StreamAccountsTest, AStreamThatItsClientCancelsIsCountedAsThat) {
  Start({});
  constexpr int kEach = 25;
  for (int i = 0; i < kEach; ++i) {
    Stream heard(*stub_, "d");
    ASSERT_TRUE(heard.Say({3, 17}).IsHeard());
    heard.Cancel();
    EXPECT_EQ(heard.End().error_code(), grpc::CANCELLED);
    Stream silent(*stub_, "d", "whole");
    silent.Cancel();
    EXPECT_EQ(silent.End().error_code(), grpc::CANCELLED);
    Stream unheard(*stub_, "d", "whole");
    unheard.Say({3, 17}).Cancel();
    EXPECT_EQ(unheard.End().error_code(), grpc::CANCELLED);
  }
  const auto counted = [this](const std::string& label) {
    return Sum(Scrape(server_->metrics_port()), "beamwright_requests_total", label);
  };
  EXPECT_TRUE(Becomes([&] { return counted("method=\"Recognize\"") == 3 * kEach; }));
  EXPECT_EQ(counted("code=\"CANCELLED\""), 3 * kEach)
      << counted("code=\"OK\"") << " were answered, " << counted("code=\"INVALID_ARGUMENT\"")
      << " refused";
}

TEST_F(StreamAccountsTest, StreamsAreBelowTheirClientsSpans) {
  Collector collector;
  Start({"--otlp-endpoint", collector.address()});
  EXPECT_TRUE(Stream(*stub_, "d").Say({3, 17}).Finish().ok());
  {
    RawClient client(port_);
    client.Open("/", absl::StrCat(Bearer("d"), "traceparent: ", kStreamParent, "\r\n"));
    SayAll(client, {3});
    SayAll(client, {17});
    client.SendMessage(websocket::kBinary, "half a sample");
    ReadAnswers(client);
  }
  {
    RawClient client(port_);  // without a trace
    client.Open("/", Bearer("d"));
    SayAll(client, {3});
  }
  EXPECT_THAT(RawClient(port_).Open(
                  "/", absl::StrCat(Bearer("wrong"), "traceparent: ", kStreamParent, "\r\n")),
              StartsWith("HTTP/1.1 401 "));
  StopAndRead();
  std::map<std::string, std::vector<std::string>> below;  // names by the span that they are in
  std::vector<Collector::Span> calls;
  for (const Collector::Span& span : collector.spans()) {
    EXPECT_EQ(absl::BytesToHexString(span.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_GE(span.end_time_unix_nano(), span.start_time_unix_nano());
    if (absl::BytesToHexString(span.parent_span_id()) == "00f067aa0ba902b7") {
      EXPECT_EQ(span.name(), "Recognize");
      calls.push_back(span);
    } else {
      below[span.parent_span_id()].push_back(span.name());
    }
  }
  ASSERT_EQ(calls.size(), 5);
  std::map<std::string, int> outcomes;  // by protocol and code
  for (const Collector::Span& span : calls) {
    std::map<std::string, std::string> said;
    for (const auto& attribute : span.attributes()) {
      said[attribute.key()] = attribute.value().string_value();
    }
    const std::string code = said["rpc.response.status_code"];
    ++outcomes[absl::StrCat(said["rpc.system.name"], said["url.scheme"], " ", code)];
    EXPECT_EQ(span.status().code() == 2, code != "OK") << code;
    const auto parts = below[span.span_id()];
    if (code == "OK") {
      EXPECT_THAT(parts, testing::ElementsAre("queue", "encode", "decode", "detokenise"));
    } else if (code == "UNAUTHENTICATED") {
      EXPECT_THAT(parts, testing::IsEmpty());
    }
  }
  EXPECT_EQ(outcomes, (std::map<std::string, int>{{"grpc OK", 1},
                                                  {"websocket OK", 2},
                                                  {"websocket INVALID_ARGUMENT", 1},
                                                  {"websocket UNAUTHENTICATED", 1}}));
}

// The rate of a tenant is that of its sources, by whatever protocol.
TEST_F(StreamAccountsTest, ATenantsRateHoldsInTheMiddleOfAConnection) {
  temp_.Write("tenants", "tenants { name: \"d\" rate: 0.001 burst: 2 } others {}");
  Start({"--tenant-file", temp_.At("tenants")});
  RawClient client(port_);
  client.Open("/", Bearer("d"));
  EXPECT_THAT(SayAll(client, {8, 12}).last, HasSubstr("\"text\":\"t8 t12\""));
  Stream second(*stub_, "d");
  EXPECT_TRUE(second.Say({3}).Finish().ok());

  const WebSocketAnswer third = SayAll(client, {5});
  EXPECT_THAT(third.last, StartsWith("{\"error\":{\"code\":8,\"status\":\"RESOURCE_EXHAUSTED\""));
  EXPECT_THAT(third.last, HasSubstr("TENANT_RATE"));
  EXPECT_THAT(third.last, HasSubstr("retryDelay"));
  EXPECT_EQ(third.close_code, kTryAgainLater);
  Stream fourth(*stub_, "d");
  const grpc::Status refused = fourth.End();
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("tenant 'd' sends more than 0.001"));
  EXPECT_TRUE(fourth.has_pushback());

  // Others do not concern it.
  EXPECT_TRUE(Stream(*stub_, "e").Say({3}).Finish().ok());
  RawClient other(port_);
  other.Open("/", Bearer("e"));
  EXPECT_THAT(SayAll(other, {8}).last, HasSubstr("\"text\":\"t8\""));
  EXPECT_EQ(Sum(Scrape(server_->metrics_port()), "beamwright_requests_rejected_total",
                "reason=\"tenant_rate\""),
            2);
}

TEST_F(StreamAccountsTest, WhatRunsOfATenantIsBoundedOverAllProtocols) {
  temp_.Write("tenants", "tenants { name: \"d\" max_running: 1 max_waiting: 1 } others {}");
  Start({"--tenant-file", temp_.At("tenants")});
  Stream first(*stub_, "d");
  ASSERT_TRUE(first.Say({3, 17}).IsHeard());
  RawClient second(port_);
  second.Open("/", Bearer("d"));
  Say(second, {8, 12});
  second.SendMessage(websocket::kText, "Done");
  ASSERT_TRUE(Becomes(
      [this] { return Sum(Scrape(server_->metrics_port()), "beamwright_requests_waiting") == 1; }));
  // One runs and one waits.
  Stream third(*stub_, "d");
  EXPECT_THAT(third.End().error_message(), HasSubstr("tenant 'd'"));
  RawClient fourth(port_);
  fourth.Open("/", Bearer("d"));
  EXPECT_THAT(SayAll(fourth, {5}).last, HasSubstr("TENANT_QUOTA"));
  EXPECT_TRUE(Stream(*stub_, "e").Say({3}).Finish().ok());
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_EQ(first.text(), "t3 t17");
  EXPECT_THAT(ReadAnswers(second).last, HasSubstr("\"text\":\"t8 t12\""));
}

// A stream that has begun goes on under limits that were lowered, and with a token that was taken
// away; the next one is refused.
TEST_F(StreamAccountsTest, WhatChangesInTheMiddleOfAStreamIsTheNextOnesAffair) {
  temp_.Write("tenants", "others {}");
  Start({"--tenant-file", temp_.At("tenants")});
  Stream stream(*stub_, "d");
  ASSERT_TRUE(stream.Say({3}).IsHeard());
  RawClient client(port_);
  client.Open("/", Bearer("e"));
  Say(client, {8, 9});
  ASSERT_EQ(client.ReadFrame().first, websocket::kText);

  Put(temp_, "tenants", "others { rate: 0.001 burst: 1 }");
  Put(temp_, "tokens", TokenLine("d", "ROLE_DECODE"));
  EXPECT_TRUE(Becomes(
      [this] { return Stream(*stub_, "e").Finish().error_code() == grpc::UNAUTHENTICATED; }));
  EXPECT_TRUE(Becomes(
      [this] { return Stream(*stub_, "d").Finish().error_code() == grpc::RESOURCE_EXHAUSTED; }));

  EXPECT_TRUE(stream.Say({17}).Finish().ok());
  EXPECT_EQ(stream.text(), "t3 t17");
  Say(client, {12});
  client.SendMessage(websocket::kText, "Done");
  EXPECT_THAT(ReadAnswers(client).last, HasSubstr("\"text\":\"t8 t9 t12\""));
  const WebSocketAnswer next = SayAll(client, {5});
  EXPECT_THAT(next.last, HasSubstr("UNAUTHENTICATED"));
  EXPECT_EQ(next.close_code, kPolicy);
}

}  // namespace
}  // namespace beamwright::e2e
