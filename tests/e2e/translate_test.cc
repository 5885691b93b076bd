// LibreTranslate's API on the real server, with bundles that `beamwright-graph init` makes of small
// random Marian models; translations are held against those of single sentences by /v1.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "beamwright/v1/decode.pb.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/support/marian_model.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kForm[] = "application/x-www-form-urlencoded";

// Words w2 to w39, those of odd numbers with an exclamation mark, where ICU ends a sentence.
std::string Vocabulary() {
  std::string text = "</s>\n<unk>\n";
  for (int id = 2; id < 40; ++id) {
    absl::StrAppend(&text, "w", id, id % 2 == 1 ? "!" : "", "\n");
  }
  return text;
}

class TranslateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    temp_ = new bundle::TempFolder;
    temp_->Write("vocab", Vocabulary());
    temp_->Write("auth", TokenLine("key", "ROLE_DECODE") + TokenLine("o", "ROLE_OBSERVE"));
    unsigned seed = 1;
    for (const std::string direction : {"esen", "enfr", "enes"}) {
      const std::string model = absl::StrCat("model.", direction, ".intgemm.alphas.bin");
      temp_->Write(model, testing_support::MarianBin(testing_support::MarianItems(
                              testing_support::RandomMarianModel(++seed), true)));
      const auto made = ops::testing_tools::RunProgram(
          {BEAMWRIGHT_GRAPH_PROGRAM, "init", temp_->At(model), "--source-vocab", temp_->At("vocab"),
           "--target-vocab", temp_->At("vocab"), "--out", temp_->At(direction)});
      ASSERT_EQ(made.exit_code, 0) << made.errors;
      EXPECT_THAT(made.output, HasSubstr("as the file name says"));
    }
    server_ = Start({}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete temp_;
  }

  static std::unique_ptr<ServerProcess> Start(std::vector<std::string> arguments) {
    for (const char* direction : {"esen", "enfr", "enes"}) {
      arguments.insert(arguments.end(), {"--model-path", temp_->At(direction)});
    }
    return std::make_unique<ServerProcess>(arguments);
  }

  TranslateTest() : http_("127.0.0.1", server_->http_port()) {
    http_.set_read_timeout(std::chrono::minutes(2));
  }

  // What the model alone says of a sentence: its n best.
  std::vector<std::string> Decoded(const std::string& model, const std::string& sentence,
                                   int n_best = 1) {
    const auto result = http_.Post(
        "/v1/models/" + model + ":decode",
        absl::StrCat(R"({"sources": [{"text": ")", sentence, R"("}], "options": {"beam_size": )",
                     n_best, R"(, "n_best": )", n_best, "}}"),
        kJson);
    v1::DecodeResponse response;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result->body, &response).ok())
        << result->body;
    std::vector<std::string> texts;
    for (const v1::Hypothesis& hypothesis : response.results(0).decoded().hypotheses()) {
      texts.push_back(hypothesis.text());
    }
    return texts;
  }

  // The answer to a request with these members; its status is status_.
  Struct Ask(const std::string& body, const char* type = kJson) {
    const auto result = http_.Post("/translate", body, type);
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    status_ = result->status;
    Struct answer;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(result->body, &answer).ok())
        << result->body;
    return answer;
  }
  std::string Text(const std::string& body, const char* type = kJson) {
    const Struct answer = Ask(body, type);
    EXPECT_EQ(status_, 200) << answer.ShortDebugString();
    return answer.fields().at("translatedText").string_value();
  }
  std::string Error(const std::string& body, const char* type = kJson) {
    return Ask(body, type).fields().at("error").string_value();
  }

  static bundle::TempFolder* temp_;
  static ServerProcess* server_;
  httplib::Client http_;
  int status_ = 0;
};

bundle::TempFolder* TranslateTest::temp_ = nullptr;
ServerProcess* TranslateTest::server_ = nullptr;

TEST_F(TranslateTest, SentencesAreTranslatedAndAllElseIsKept) {
  const std::string first = Decoded("enfr", "w4 w6 w9!")[0];
  const std::string second = Decoded("enfr", "w8 w3!")[0];
  const std::string third = Decoded("enfr", "w10 w12")[0];
  EXPECT_EQ(Text(R"({"q": "  w4 w6 w9!  w8 w3!\r\n\n---\tw10 w12\n", "source": "en",
                     "target": "fr"})"),
            "  " + first + "  " + second + "\r\n\n---\t" + third + "\n");
  // As a form, with its escapes; and a language as itself.
  EXPECT_EQ(Text("q=w4+w6%20w9!&source=en&target=fr&format=text", kForm), first);
  EXPECT_EQ(Text(R"({"q": "anything  at all", "source": "fr", "target": "fr"})"),
            "anything  at all");
  EXPECT_EQ(Text(R"({"q": "", "source": "en", "target": "fr"})"), "");
}

TEST_F(TranslateTest, ListsAndAlternatives) {
  const Struct answer = Ask(R"({"q": ["w4 w6 w9!", "", "w8 w3!"], "source": "en", "target": "fr",
                                "alternatives": 2})");
  ASSERT_EQ(status_, 200) << answer.ShortDebugString();
  const std::vector<std::string> first = Decoded("enfr", "w4 w6 w9!", 3);
  const std::vector<std::string> last = Decoded("enfr", "w8 w3!", 3);
  const auto& texts = answer.fields().at("translatedText").list_value().values();
  ASSERT_EQ(texts.size(), 3);
  EXPECT_EQ(texts[0].string_value(), first[0]);
  EXPECT_EQ(texts[1].string_value(), "");
  EXPECT_EQ(texts[2].string_value(), last[0]);
  const auto& further = answer.fields().at("alternatives").list_value().values();
  ASSERT_EQ(further.size(), 3);
  ASSERT_EQ(further[0].list_value().values_size(), 2);
  EXPECT_EQ(further[0].list_value().values(0).string_value(), first[1]);
  EXPECT_EQ(further[0].list_value().values(1).string_value(), first[2]);
  EXPECT_EQ(further[1].list_value().values_size(), 0);
}

TEST_F(TranslateTest, ThroughAThirdLanguage) {
  // The sentences of the translation, which may have other ends.
  const std::string english = Decoded("esen", "w4 w6 w9!")[0];
  EXPECT_EQ(Text(R"({"q": "w4 w6 w9!", "source": "es", "target": "fr"})"),
            Text(absl::StrCat(R"({"q": ")", english, R"(", "source": "en", "target": "fr"})")));
  const auto languages = http_.Get("/languages");
  EXPECT_EQ(languages->body, R"([{"code":"en","name":"English","targets":["en","es","fr"]},)"
                             R"({"code":"es","name":"Spanish","targets":["en","es","fr"]},)"
                             R"({"code":"fr","name":"French","targets":["fr"]}])"
                             "\n");
  EXPECT_EQ(http_.Post("/languages", "", kForm)->body, languages->body);
}

TEST_F(TranslateTest, ErrorsNameTheirMember) {
  struct Case {
    const char* body;
    const char* error;
  };
  for (const Case& c : std::vector<Case>{
           {R"({"source": "en", "target": "fr"})", "q: is not set"},
           {R"({"q": "a"})",
            "source: is not set; GET /languages lists those that there are; target"},
           {R"({"q": 1, "source": "en", "target": "fr"})", "q: is neither a string nor a list"},
           {R"({"q": ["a", 1], "source": "en", "target": "fr"})", "q[1]: is not a string"},
           {R"({"q": [], "source": "en", "target": "fr"})", "q: is empty"},
           {R"({"q": "a", "source": "xx", "target": "fr"})", "source: 'xx' is not supported"},
           {R"({"q": "a", "source": "en", "target": "x"})", "target: 'x' is not supported"},
           {R"({"q": "a", "source": "fr", "target": "en"})", "target: 'en' is not supported for"},
           {R"({"q": "a", "source": "auto", "target": "en"})", "source: is auto"},
           {R"({"q": "a", "source": "en", "target": "fr", "format": "html"})", "format: only text"},
           {R"({"q": "a", "source": "en", "target": "fr", "alternatives": -1})",
            "alternatives: is"},
           {R"({"q": "a", "source": "en", "target": "fr", "alternatives": 17})",
            "alternatives: 17"},
           {R"({"q": "a", "source": "en", "target": "fr", "alternatives": "x"})",
            "alternatives: is"},
           {R"({"q": )", "the body is not a JSON object"},
           {R"([1])", "the body is not a JSON object"},
           {"", "q: is not set"}}) {
    EXPECT_THAT(Error(c.body), HasSubstr(c.error)) << c.body;
    EXPECT_EQ(status_, 400) << c.body;
  }
  EXPECT_THAT(Error("q=a&source=en&target=%zz", kForm), HasSubstr("escape"));
  EXPECT_THAT(Error("q=%ff&source=en&target=fr", kForm), HasSubstr("q: is not UTF-8"));
  EXPECT_THAT(Error("a", "multipart/form-data; boundary=x"), HasSubstr("multipart/form-data"));
  const auto wrong = http_.Get("/translate");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_THAT(wrong->body, HasSubstr("POST"));
  EXPECT_EQ(http_.Get("/health")->body, "{\"status\":\"ok\"}\n");
  EXPECT_THAT(http_.Get("/frontend/settings")->body, HasSubstr("\"keyRequired\":false"));
}

TEST_F(TranslateTest, LargeTextsAreTranslatedOrRefusedWithTheirSize) {
  // 10,000 lines in one call, though a call of Decode takes 4,096 sources, and a queue that refuses
  // most sentences at first.
  const auto server = Start({"--max-queue", "8"});
  httplib::Client http("127.0.0.1", server->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  std::string lines;
  std::vector<std::string> expected;
  const std::string words[] = {Decoded("enfr", "w4 w9!")[0], Decoded("enfr", "w6 w9!")[0]};
  for (int i = 0; i < 10000; ++i) {
    absl::StrAppend(&lines, i % 3 == 0 ? "w4" : "w6", " w9!\\n");
    expected.push_back(words[i % 3 == 0 ? 0 : 1]);
  }
  const auto result =
      http.Post("/translate",
                absl::StrCat(R"({"q": ")", lines, R"(", "source": "en", "target": "fr"})"), kJson);
  ASSERT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(result->body,
            absl::StrCat(R"({"translatedText":")", absl::StrJoin(expected, "\\n"), "\\n\"}\n"));
  const std::string large((1 << 20) + 1, 'a');
  EXPECT_THAT(Error(absl::StrCat(R"({"q": ")", large, R"(", "source": "en", "target": "fr"})")),
              HasSubstr("q: have 1048577 characters; at most 1048576"));
  EXPECT_EQ(status_, 400);
}

TEST_F(TranslateTest, KeysAreTokens) {
  const auto server = Start({"--auth-token-file", temp_->At("auth")});
  httplib::Client http("127.0.0.1", server->http_port());
  http.set_read_timeout(std::chrono::minutes(2));
  const std::string fields = "q=w4&source=en&target=fr";
  EXPECT_EQ(http.Post("/translate", fields + "&api_key=key", kForm)->status, 200);
  EXPECT_EQ(http.Post("/translate", {{"Authorization", "Bearer key"}}, fields, kForm)->status, 200);
  for (const char* key : {"", "&api_key=wrong", "&api_key=o", "&api_key="}) {
    const auto result = http.Post("/translate", fields + key, kForm);
    EXPECT_EQ(result->status, 403) << key;
    EXPECT_THAT(result->body, HasSubstr("{\"error\":\"")) << key;
  }
  EXPECT_EQ(http.Get("/languages")->status, 403);
  EXPECT_EQ(http.Post("/languages", "api_key=o", kForm)->status, 200);
  EXPECT_EQ(http.Get("/health")->status, 200);
  EXPECT_THAT(http.Get("/frontend/settings")->body, HasSubstr("\"keyRequired\":true"));
}

TEST_F(TranslateTest, CallsAreCountedAndCancelled) {
  const std::string counter =
      R"(beamwright_calls_total{code="OK",method="Translate",model="enfr",protocol="http",version="1"})";
  Text(R"({"q": "w4", "source": "en", "target": "fr"})");
  const Samples samples = Scrape(server_->metrics_port());
  bool is_counted = false;
  for (const auto& [name, value] : samples) {
    is_counted = is_counted || (absl::StrContains(name, "method=\"Translate\"") &&
                                absl::StrContains(name, "model=\"enfr\"") && value > 0);
  }
  EXPECT_TRUE(is_counted) << counter;
}

}  // namespace
}  // namespace beamwright::e2e
