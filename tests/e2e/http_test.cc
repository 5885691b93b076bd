// The HTTP API, probes and metrics of the real server; statuses compared with those of gRPC.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>
#include <signal.h>

#include <map>
#include <regex>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpTest : public E2eTest {
 protected:
  HttpTest() : api_("127.0.0.1", server_->http_port()), ops_("127.0.0.1", server_->metrics_port()) {
    api_.set_keep_alive(true);
    api_.set_read_timeout(std::chrono::minutes(2));
    ops_.set_read_timeout(std::chrono::minutes(2));
  }

  // The value of a metric with these labels; -1 if missing.
  double Metric(const std::string& name_and_labels) {
    const Samples samples = Scrape(server_->metrics_port());
    const auto found = samples.find(name_and_labels);
    return found == samples.end() ? -1 : found->second;
  }

  httplib::Client api_;
  httplib::Client ops_;
};

TEST_F(HttpTest, DecodeAnswersWhatGrpcDoes) {
  v1::DecodeRequest request = Request({"recurrent", ""});
  request.mutable_options()->set_beam_size(5);
  request.mutable_options()->set_n_best(3);
  request.mutable_options()->set_length_penalty(v1::LENGTH_PENALTY_POW);
  ASSERT_TRUE(Call(request).ok());
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(request, &json).ok());
  const auto result = api_.Post("/v1/models/g2p-en:decode", json, kJson);
  ASSERT_TRUE(result) << httplib::to_string(result.error());
  EXPECT_EQ(result->status, 200) << result->body;
  v1::DecodeResponse response;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result->body, &response).ok());
  EXPECT_EQ(Timeless(response).SerializeAsString(), Timeless(response_).SerializeAsString());
  // By hand, with the version in the path and the short way to write it.
  const auto brief =
      api_.Post("/v1/models/g2p-en/versions/1:decode",
                R"({"sources": [{"text": "cat"}], "options": {"beam_size": 2}})", kJson);
  EXPECT_EQ(brief->status, 200) << brief->body;
  EXPECT_THAT(brief->body, HasSubstr("\"K AE1 T\""));
}

// What a browser on this machine sends on behalf of a page that is open in it.
TEST_F(HttpTest, PagesOfOtherOriginsCannotCall) {
  const httplib::Headers none;
  const httplib::Headers other = {{"Origin", "https://evil.example"}};
  const httplib::Headers rebound = {{"Host", "evil.example"}, {"Origin", "http://evil.example"}};
  const std::string word = R"({"sources": [{"text": "cat"}]})";
  struct Case {
    const char* listener;
    int port;
    const char* path;
    std::string body;
    int status_without;
    int status_of_other;
    int status_of_rebound;
    int status_of_reading;  // GET /livez, rebound
  };
  const std::vector<Case> cases = {
      {"API", server_->http_port(), "/v1/models/g2p-en:decode", word, 200, 403, 200, 200},
      {"API", server_->http_port(), "/translate", "", 400, 403, 400, 200},
      {"admin", server_->admin_port(), "/v1/models/g2p-en:decode", word, 200, 403, 403, 403},
      {"admin", server_->admin_port(), "/v2/repository/models/none/unload", "", 200, 403, 403, 403},
      {"metrics", server_->metrics_port(), "/metrics", "", 405, 405, 405, 200},
  };
  for (const Case& c : cases) {
    httplib::Client client("127.0.0.1", c.port);
    client.set_read_timeout(std::chrono::minutes(2));
    const auto post = [&](const httplib::Headers& headers) {
      const auto result = client.Post(c.path, headers, c.body, "text/plain");
      const bool is_refused = result && result->status == 403;
      EXPECT_EQ(is_refused, result && absl::StrContains(result->body, "http-cors-origins"));
      return result ? result->status : -1;
    };
    EXPECT_EQ(post(none), c.status_without) << c.listener << c.path;
    EXPECT_EQ(post(other), c.status_of_other) << c.listener << c.path;
    EXPECT_EQ(post(rebound), c.status_of_rebound) << c.listener << c.path;
    EXPECT_EQ(client.Get("/livez", rebound)->status, c.status_of_reading) << c.listener;
  }
}

TEST_F(HttpTest, StatusesOfFailures) {
  struct Case {
    const char* path;
    const char* body;
    int status;
    const char* message;
  };
  const std::string word = R"({"sources": [{"text": "cat"}]})";
  const std::vector<Case> cases = {
      {"/v1/models/x:decode", word.c_str(), 404, "unknown model"},
      {"/v1/models/g2p-en/versions/9:decode", word.c_str(), 404, "'9'"},
      {"/v1/models/g2p-en:decode", "", 400, "JSON"},
      {"/v1/models/g2p-en:decode", "{", 400, "the body is not JSON: at byte 1"},
      {"/v1/models/g2p-en:decode", R"({"source": 1})", 400, "'sources' is"},
      {"/v1/models/g2p-en:decode", "{}", 400, "sources: is empty"},
      {"/v1/models/g2p-en:decode", R"({"model": "x", "sources": [{"text": "a"}]})", 400,
       "in the path"},
      {"/v1/models/g2p-en:decode", R"({"sources": [{"text": "a"}], "options": {"beam_size": 0}})",
       400, "options.beam_size: 0"},
      {"/v1/models/g2p-en:decode", R"({"sources": [null, {"text": "cat"}]})", 400,
       "sources[0]: is null"},
      {"/v1/models/g2p-en:encode", word.c_str(), 404, "there is no path"},
      {"/v1/models/g2p-en/versions/1:encode", word.c_str(), 404, "there is no path"},
      {"/v1/models/g2p-en", word.c_str(), 405, "GET"},
      {"/v1/nothing", "", 404, "/v1/nothing"},
      {"/v3", "", 404, "/v3"},
      {"/v2/models/x/infer", "{}", 404, "Request for unknown model: 'x'"},
      {"/v2/models/g2p-en/infer", "[]", 400, "not a JSON object"},
      {"/v2/models/g2p-en/infer", R"({"inputs": {}})", 400, "inputs: is not a list"},
      {"/v2/models/g2p-en/infer", R"({"inputs": [{"name": "source_text", "shape": [1.5]}]})", 400,
       "shape: is not a whole number"},
      {"/v2/models/g2p-en/infer",
       R"({"inputs": [{"name": "source_text", "shape": [1], "datatype": "BYTES", "data": [1]}]})",
       400, "data: [0]: is not a string"},
      {"/v2/models/g2p-en/infer",
       R"({"parameters": {"timeout": 1},
           "inputs": [{"name": "source_text", "shape": [1], "datatype": "BYTES", "data": ["a"]}]})",
       504, "deadline"},
      {"/v2/models/g2p-en/ready", "", 405, "GET"},
  };
  for (const Case& c : cases) {
    const auto result = api_.Post(c.path, c.body, kJson);
    ASSERT_TRUE(result) << c.path << httplib::to_string(result.error());
    EXPECT_EQ(result->status, c.status) << c.path << " " << c.body << " " << result->body;
    EXPECT_THAT(result->body, AllOf(HasSubstr("\"error\""), HasSubstr(c.message))) << c.path;
  }
  EXPECT_EQ(api_.Get("/v1/models/g2p-en:decode")->status, 405);
  EXPECT_EQ(api_.Put("/v1/models/g2p-en:decode", word, kJson)->status, 405);
}

TEST_F(HttpTest, TheInferenceProtocolInJson) {
  const auto result = api_.Post("/v2/models/g2p-en/infer",
                                R"({"id": "7", "parameters": {"beam_size": 3, "n_best": 2},
       "inputs": [{"name": "source_text", "shape": [2, 1], "datatype": "BYTES",
                   "data": [["cat"], ["dog"]]}],
       "outputs": [{"name": "text"}, {"name": "num_hypotheses"}]})",
                                kJson);
  ASSERT_EQ(result->status, 200) << result->body;
  EXPECT_THAT(
      result->body,
      AllOf(HasSubstr(R"("id":"7")"),
            HasSubstr(R"({"name":"text","datatype":"BYTES","shape":[2,2],"data":["K AE1 T",)"),
            HasSubstr(R"("shape":[2,1],"data":[2,2]})")));
  EXPECT_EQ(api_.Get("/v2/health/live")->status, 200);
  EXPECT_EQ(api_.Get("/v2/health/ready")->status, 200);
  EXPECT_EQ(api_.Get("/v2/models/g2p-en/ready")->status, 200);
  EXPECT_EQ(api_.Get("/v2/models/g2p-en/versions/1/ready")->status, 200);
  EXPECT_EQ(api_.Get("/v2/models/x/ready")->status, 503);
  EXPECT_THAT(api_.Get("/v2")->body, HasSubstr(R"("name":"beamwright")"));
  EXPECT_THAT(api_.Get("/v2/models/g2p-en")->body, HasSubstr(R"("shape":[-1,1])"));
  EXPECT_THAT(api_.Get("/v2/models/g2p-en/config")->body, HasSubstr(R"("max_batch_size":4096)"));
  EXPECT_THAT(api_.Get("/v2/models/g2p-en/stats")->body, HasSubstr(R"("inference_count":)"));
  EXPECT_THAT(api_.Get("/v2/models/stats")->body, HasSubstr(R"("name":"g2p-en")"));
  EXPECT_THAT(api_.Post("/v2/repository/index", "", kJson)->body,
              HasSubstr(R"([{"name":"g2p-en")"));
}

// Elements of an output of an answer in JSON.
std::vector<float> NumbersOf(const std::string& body, int output) {
  google::protobuf::Struct answer;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(body, &answer).ok()) << body;
  const auto& outputs = answer.fields().at("outputs").list_value();
  const auto& data = outputs.values(output).struct_value().fields().at("data").list_value();
  std::vector<float> numbers;
  for (const auto& value : data.values()) {
    numbers.push_back(static_cast<float>(value.number_value()));
  }
  return numbers;
}

TEST_F(HttpTest, TheInferenceProtocolsNumbersInJsonAreThoseOfDecode) {
  v1::DecodeRequest request = Request({"cat"});
  request.mutable_options()->set_attention(v1::ATTENTION_SOFT);
  ASSERT_TRUE(Call(request).ok());
  const v1::Hypothesis& expected = response_.results(0).decoded().hypotheses(0);
  const auto result = api_.Post("/v2/models/g2p-en/infer",
                                R"({"inputs": [{"name": "source_text", "shape": [1, 1],
                                                "datatype": "BYTES", "data": ["cat"]}],
       "outputs": [{"name": "attention"}, {"name": "token_log_probs"}, {"name": "ids"},
                   {"name": "scores"}]})",
                                kJson);
  ASSERT_EQ(result->status, 200) << result->body;
  EXPECT_THAT(NumbersOf(result->body, 0), ElementsAreArray(expected.attention().values()));
  EXPECT_THAT(NumbersOf(result->body, 1), ElementsAreArray(expected.token_log_probs()));
  EXPECT_THAT(NumbersOf(result->body, 2), ElementsAreArray(expected.tokens()));
  EXPECT_THAT(NumbersOf(result->body, 3), ElementsAre(static_cast<float>(expected.score())));
}

TEST_F(HttpTest, ModelsAreListedAndDescribed) {
  EXPECT_THAT(api_.Get("/v1/models")->body, HasSubstr("\"g2p-en\""));
  EXPECT_THAT(api_.Get("/v1/models/g2p-en")->body,
              AllOf(HasSubstr("\"encoder_input\""), HasSubstr("\"target_vocabulary_size\":71")));
  EXPECT_EQ(api_.Get("/v1/models/x")->status, 404);
}

TEST_F(HttpTest, ProbesAreOnBothListenersAndMetricsOnTheirs) {
  for (const char* path : {"/livez", "/readyz", "/healthz", "/startupz"}) {
    EXPECT_EQ(api_.Get(path)->status, 200) << path;
    EXPECT_EQ(ops_.Get(path)->status, 200) << path;
  }
  EXPECT_EQ(api_.Get("/metrics")->status, 404);
  EXPECT_EQ(ops_.Get("/v1/models")->status, 404);
  EXPECT_EQ(ops_.Post("/metrics", "", kJson)->status, 405);
}

TEST_F(HttpTest, MetricsCountEveryCallWhateverItsProtocol) {
  const std::string decode =
      "beamwright_requests_total{code=\"OK\",method=\"Decode\",model=\"g2p-en\",";
  const std::string grpc = decode + "protocol=\"grpc\",version=\"1\"}";
  const std::string http = decode + "protocol=\"http\",version=\"1\"}";
  const std::string refused =
      "beamwright_requests_total{code=\"NOT_FOUND\",method=\"Decode\",model=\"\","
      "protocol=\"grpc\",version=\"\"}";
  ASSERT_TRUE(Call(Request({"cat"})).ok());
  ASSERT_EQ(api_.Post("/v1/models/g2p-en:decode", R"({"sources": [{"text": "a"}]})", kJson)->status,
            200);
  v1::DecodeRequest unknown = Request({"cat"});
  unknown.set_model("x");
  ASSERT_FALSE(Call(unknown).ok());
  const double grpc_before = Metric(grpc);
  const double http_before = Metric(http);
  const double refused_before = Metric(refused);
  const std::string sources =
      "beamwright_sources_total{code=\"OK\",model=\"g2p-en\",version=\"1\"}";
  const double sources_before = Metric(sources);
  ASSERT_GT(grpc_before, 0);
  ASSERT_GT(http_before, 0);
  ASSERT_GT(refused_before, 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Call(Request({"cat", "dog"})).ok());
    ASSERT_FALSE(Call(unknown).ok());
  }
  EXPECT_EQ(Metric(grpc), grpc_before + 3);
  EXPECT_EQ(Metric(http), http_before);
  EXPECT_EQ(Metric(refused), refused_before + 3);
  EXPECT_EQ(Metric(sources), sources_before + 6);
  // The engine counts its rows when it comes round, which may be after the answer.
  while (Metric("beamwright_requests_running") != 0 || Metric("beamwright_beam_rows_active") != 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Metric("beamwright_ready"), 1);
}

// The text format, line by line: each family once, with its help and type before its samples, and
// buckets that only grow.
TEST_F(HttpTest, MetricsAreWellFormed) {
  ASSERT_TRUE(Call(Request({"cat"})).ok());
  const std::string body = ops_.Get("/metrics")->body;
  std::map<std::string, std::string> types;
  std::map<std::string, double> last_bucket;
  std::istringstream lines(body);
  const std::regex sample(R"re(([a-z_]+)(\{([a-z_]+="[^"]*",?)*\})? (-?[0-9.e+-]+|[+-]Inf|NaN))re");
  const std::regex bucket(R"re((.*_bucket\{.*)le="([^"]*)"\} (.*))re");
  int num_samples = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash;
    std::string kind;
    std::string name;
    words >> hash >> kind >> name;
    if (hash == "#") {
      if (kind == "TYPE") {
        EXPECT_TRUE(types.emplace(name, "").second) << name << " stands twice";
        words >> types[name];
      }
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    ++num_samples;
    const std::string family =
        std::regex_replace(match[1].str(), std::regex("_(bucket|sum|count)$"), "");
    EXPECT_TRUE(types.count(family) + types.count(match[1].str()) > 0) << line;
    EXPECT_THAT(family, ::testing::AnyOf(::testing::StartsWith("beamwright_"),
                                         ::testing::StartsWith("process_")));
    if (std::regex_match(line, match, bucket)) {
      double& last = last_bucket[match[1].str()];
      EXPECT_GE(std::stod(match[3].str()), last) << line;
      last = std::stod(match[3].str());
    }
  }
  EXPECT_GT(num_samples, 50);
  EXPECT_EQ(types["beamwright_request_duration_seconds"], "histogram");
  EXPECT_EQ(types["beamwright_step_duration_seconds"], "histogram");
  EXPECT_THAT(body, Not(HasSubstr(" nan")));  // as a value
}

TEST_F(HttpTest, ABodyBeyondTheLimitIsRefused) {
  const auto result = api_.Post("/v1/models/g2p-en:decode", std::string((4 << 20) + 1, ' '), kJson);
  ASSERT_TRUE(result) << httplib::to_string(result.error());
  EXPECT_EQ(result->status, 413);
}

TEST(HttpLifecycleTest, ProbesTellLoadingServingAndLeaving) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-delay", "1s"});
  httplib::Client ops("127.0.0.1", server.metrics_port());
  ops.set_read_timeout(std::chrono::minutes(2));
  ASSERT_GT(server.WaitForPort(), 0) << server.log();
  EXPECT_EQ(ops.Get("/readyz")->status, 200);
  const auto channel = Connect(server.address());
  const auto stub = v1::DecodeService::NewStub(channel);
  server.Signal(SIGTERM);
  // Not ready, and still answering: what balancers have not noticed yet is not lost.
  for (;;) {
    const auto ready = ops.Get("/readyz");
    ASSERT_TRUE(ready);
    if (ready->status == 503) {
      EXPECT_THAT(ready->body, HasSubstr("shutting down"));
      break;
    }
  }
  EXPECT_EQ(ops.Get("/livez")->status, 200);
  EXPECT_TRUE(Decode(*stub, Request({"cat"})).first.ok());
  EXPECT_EQ(server.Wait(), 0) << server.log();
}

TEST(HttpLifecycleTest, AnInterruptWaitsForNobody) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-delay", "1h"});
  httplib::Client api("127.0.0.1", server.http_port());
  api.set_read_timeout(std::chrono::minutes(2));
  api.set_keep_alive(true);
  EXPECT_EQ(api.Get("/livez")->status, 200);  // an idle connection stays open
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0) << server.log();
}

TEST(HttpLifecycleTest, ASecondSignalEndsAtOnce) {
  ServerProcess server({"--model-path", DefaultModel(), "--drain-delay", "1h"});
  httplib::Client ops("127.0.0.1", server.metrics_port());
  ops.set_read_timeout(std::chrono::minutes(2));
  ASSERT_GT(server.WaitForPort(), 0);
  server.Signal(SIGTERM);
  while (ops.Get("/readyz")->status != 503) {
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 1);
}

TEST(HttpLifecycleTest, APortThatIsTakenIsNamed) {
  ServerProcess first({"--model-path", DefaultModel()});
  const std::string http = "127.0.0.1:" + std::to_string(first.http_port());
  const std::string metrics = "127.0.0.1:" + std::to_string(first.metrics_port());
  for (const auto& [flag, address] :
       {std::pair("--http-address", http), std::pair("--metrics-address", metrics)}) {
    ServerProcess second({"--model-path", DefaultModel(), flag, address});
    EXPECT_EQ(second.WaitForPort(), 0) << flag;
    EXPECT_EQ(second.Wait(), 1) << flag;
    EXPECT_THAT(second.log(), HasSubstr(std::string(flag + 2) + ": cannot listen on '" + address +
                                        "': Address already in use"));
  }
  ServerProcess none({"--model-path", DefaultModel(), "--http-address", "8000"});
  EXPECT_EQ(none.Wait(), 2);
  EXPECT_THAT(none.log(), HasSubstr("--http-address: '8000' is not a valid address to listen on"));
}

TEST(HttpLifecycleTest, ListenersCanBeTurnedOff) {
  ServerProcess server({"--model-path", DefaultModel(), "--http-address", "none",
                        "--metrics-address", "none", "--admin-address", "none"});
  EXPECT_GT(server.WaitForPort(), 0);
  EXPECT_THAT(server.log(), Not(HasSubstr("HTTP on")));
}

}  // namespace
}  // namespace beamwright::e2e
