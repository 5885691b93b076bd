// Translation over LibreTranslate's API and gRPC on the real server, with bundles that
// `beamwright-graph init` makes of small random Marian models; translations are held against those
// of single sentences by /v1.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/translate.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/scraped_metrics.h"
#include "tests/e2e/secured.h"
#include "tests/support/marian_model.h"
#include "tests/support/zip_file.h"
#include "tests/tools/graph/shell.h"

namespace beamwright::e2e {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;
using ::testing::AllOf;
using ::testing::AnyOf;
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
           {R"({"q": "1 2 3", "source": "auto", "target": "en"})", "source: "},
           {R"({"q": "a", "source": "en", "target": "fr", "format": "md"})", "format: is neither"},
           {R"({"q": "a", "source": "en", "target": "fr", "glossary": 1})", "glossary: is not an"},
           {R"({"q": "a", "source": "en", "target": "fr", "glossary": {"a": ""}})",
            "glossary[0]: has an empty"},
           {R"({"q": "a", "source": "es", "target": "fr", "glossary": {"a": "b"}})",
            "glossary: needs a model"},
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
  EXPECT_THAT(Error("a", "multipart/form-data; boundary=x"), HasSubstr("boundary"));
  EXPECT_THAT(Error("a", "text/plain"), HasSubstr("multipart/form-data"));
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

// A call of TranslateService; `give_up`: how long the client waits.
std::pair<grpc::Status, v1::TranslateResponse> Call(
    ServerProcess& server, const v1::TranslateRequest& request,
    std::chrono::milliseconds give_up = std::chrono::minutes(2)) {
  const auto stub = v1::TranslateService::NewStub(Connect(server.address()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + give_up);
  v1::TranslateResponse response;
  const grpc::Status status = stub->Translate(&context, request, &response);
  return {status, response};
}

v1::TranslateRequest RequestOf(const std::vector<std::string>& texts, const std::string& target) {
  v1::TranslateRequest request;
  for (const std::string& text : texts) {
    request.add_texts(text);
  }
  request.set_source_language("en");
  request.set_target_language(target);
  return request;
}

TEST_F(TranslateTest, OverGrpcAsOverHttp) {
  v1::TranslateRequest request = RequestOf({" w4 w6 w9!\n", ""}, "fr-CA");
  request.set_alternatives(2);
  const auto [status, response] = Call(*server_, request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::vector<std::string> found = Decoded("enfr", "w4 w6 w9!", 3);
  ASSERT_EQ(response.translations_size(), 2);
  EXPECT_EQ(response.translations(0).text(), " " + found[0] + "\n");
  EXPECT_THAT(response.translations(0).alternatives(),
              ElementsAre(" " + found[1] + "\n", " " + found[2] + "\n"));
  EXPECT_EQ(response.translations(1).text(), "");
  EXPECT_EQ(response.source_language(), "en");
  EXPECT_EQ(response.target_language(), "fr");

  request.set_target_language("xx");
  request.set_alternatives(17);
  const auto refused = Call(*server_, request).first;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("alternatives: 17"));
  request.set_alternatives(0);
  EXPECT_THAT(Call(*server_, request).first.error_message(),
              HasSubstr("target_language: 'xx' is not supported"));
}

TEST_F(TranslateTest, TheCommandLineTranslatesFilesAndStandardInput) {
  const std::string first = Decoded("enfr", "w4 w6 w9!")[0];
  const std::vector<std::string> second = Decoded("enfr", "w8 w3!", 2);
  const auto run = [](std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {"translate", "--source", "en", "--target", "fr"});
    arguments.insert(arguments.end(), {"--server", server_->address()});
    return client::Beamwright(arguments, input);
  };
  const client::ProcessResult typed = run({}, "w4 w6 w9!\n\n  w8 w3!\n");
  EXPECT_EQ(typed.exit_code, 0) << typed.err;
  EXPECT_EQ(typed.out, first + "\n\n  " + second[0] + "\n");
  // Many calls of one line each, whose answers stay in order; and a file behind another one.
  std::string lines;
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&lines, i % 3 == 0 ? "w4 w6 w9!" : "w8 w3!", "\n");
    absl::StrAppend(&expected, i % 3 == 0 ? first : second[0], "\n");
  }
  temp_->Write("lines.txt", lines);
  const client::ProcessResult files =
      run({temp_->At("lines.txt"), "-", "--batch", "1"}, "w8 w3!\r\n");
  EXPECT_EQ(files.exit_code, 0) << files.err;
  EXPECT_EQ(files.out, expected + second[0] + "\n");
  EXPECT_EQ(run({"--alternatives", "1"}, "w8 w3!").out, absl::StrJoin(second, "\t") + "\n");
  EXPECT_THAT(run({"--json"}, "w8 w3!").out,
              AllOf(HasSubstr(R"("source":"w8 w3!")"), HasSubstr("\"text\":\"" + second[0] + "\""),
                    HasSubstr(R"("target_language":"fr")")));

  const client::ProcessResult bytes = run({}, "w4\n\xff\n");
  EXPECT_EQ(bytes.exit_code, 1);
  EXPECT_THAT(bytes.err, HasSubstr("standard input, line 2: "));
  EXPECT_EQ(run({"/no/such/file"}).exit_code, 2);
  const client::ProcessResult wrong = client::Beamwright(
      {"translate", "--source", "en", "--target", "xx", "--server", server_->address()}, "w4\n");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("'xx' is not supported; the languages are en, es, fr"));
}

TEST_F(TranslateTest, AStreamHasTheSameAnswerInParts) {
  // Parts of 1 KiB, 2 KiB and so on; French is the target, so that its texts stay.
  std::vector<std::string> texts;
  for (int i = 0; i < 600; ++i) {
    texts.push_back(i % 7 == 0 ? "" : i % 3 == 0 ? "w4 w6 w9! w10" : " w8 w3!\n");
  }
  v1::TranslateRequest request = RequestOf(texts, "fr");
  request.set_alternatives(1);
  const auto [status, whole] = Call(*server_, request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const auto stream = [](const v1::TranslateRequest& asked,
                         std::vector<v1::TranslateResponse>& messages) {
    const auto stub = v1::TranslateService::NewStub(Connect(server_->address()));
    grpc::ClientContext context;
    const auto reader = stub->StreamTranslate(&context, asked);
    v1::TranslateResponse message;
    while (reader->Read(&message)) {
      messages.push_back(message);
    }
    return reader->Finish();
  };
  std::vector<v1::TranslateResponse> messages;
  const grpc::Status ended = stream(request, messages);
  ASSERT_TRUE(ended.ok()) << ended.error_message();
  v1::TranslateResponse joined;
  double done = 0;
  for (const v1::TranslateResponse& message : messages) {
    EXPECT_GE(message.done(), done);
    done = message.done();
    EXPECT_EQ(message.target_language(), "fr");
    joined.MergeFrom(message);
  }
  EXPECT_EQ(done, 1);
  EXPECT_GT(messages.size(), 2);
  EXPECT_LT(messages[0].translations_size(), 300);
  joined.clear_done();
  EXPECT_EQ(joined.SerializeAsString(), whole.SerializeAsString());

  request.set_target_language("xx");
  messages.clear();
  EXPECT_THAT(stream(request, messages).error_message(), HasSubstr("'xx' is not supported"));
  EXPECT_TRUE(messages.empty());
}

TEST_F(TranslateTest, FilesComeBackTranslatedByRpcAndCommandLine) {
  const std::string first = Decoded("enfr", "w4 w6 w9!")[0];
  const auto part_of = [](const std::string& text) {
    return absl::StrCat("<w:p><w:r><w:t xml:space=\"preserve\">", text, "</w:t></w:r></w:p>");
  };
  const auto file_of = [](const std::string& part) {
    return testing_support::ZipFile(
        {{"word/document.xml", part}, {"word/media/image.png", std::string(999, '\x8f')}});
  };
  const std::string file = file_of(part_of("w4 w6 w9!"));
  v1::TranslateRequest request = RequestOf({}, "fr");
  request.set_format(v1::TEXT_FORMAT_DOCX);
  EXPECT_THAT(Call(*server_, request).first.error_message(), HasSubstr("document: is not set"));
  request.set_document(file);
  const auto [status, response] = Call(*server_, request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.translations().empty());
  EXPECT_THAT(response.document(), HasSubstr(part_of(first)));
  EXPECT_THAT(response.document(), HasSubstr(std::string(999, '\x8f')));

  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"translate", "--source", "en", "--target", "fr",
                                         "--server", server_->address()});
    return client::Beamwright(arguments, "");
  };
  temp_->Write("letter.docx", file);
  const client::ProcessResult typed = run({temp_->At("letter.docx")});
  EXPECT_EQ(typed.exit_code, 0) << typed.err;
  EXPECT_EQ(typed.out, response.document());
  EXPECT_EQ(run({temp_->At("letter.docx"), "--json"}).exit_code, 2);
  temp_->Write("film.SRT", "1\n00:00:01,000 --> 00:00:02,000\nw4 w6 w9!\n");
  EXPECT_EQ(run({temp_->At("film.SRT")}).out, "1\n00:00:01,000 --> 00:00:02,000\n" + first + "\n");
  temp_->Write("bad.docx", file_of("<w:p><w:r></w:p>"));
  const client::ProcessResult bad = run({temp_->At("bad.docx")});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, HasSubstr("document: word/document.xml: byte 10: </w:p> closes <w:r>"));

  request.add_texts("w4");
  EXPECT_THAT(Call(*server_, request).first.error_message(), HasSubstr("texts: are set"));
  request.clear_texts();
  request.set_alternatives(1);
  EXPECT_THAT(Call(*server_, request).first.error_message(), HasSubstr("alternatives: "));
  request.clear_format();
  EXPECT_THAT(Call(*server_, request).first.error_message(), HasSubstr("document: is set"));
}

TEST_F(TranslateTest, CallsAreCountedAndEndAtTheirDeadline) {
  const auto count = [](const std::string& code, const std::string& protocol) {
    double calls = 0;
    for (const auto& [name, value] : Scrape(server_->metrics_port())) {
      const bool is_of_it = absl::StartsWith(name, "beamwright_requests_total{") &&
                            absl::StrContains(name, "method=\"Translate\"") &&
                            absl::StrContains(name, "code=\"" + code + "\"") &&
                            absl::StrContains(name, "protocol=\"" + protocol + "\"");
      calls += is_of_it ? value : 0;
    }
    return calls;
  };
  const double http = count("OK", "http");
  const double grpc = count("OK", "grpc");
  Text(R"({"q": "w4", "source": "en", "target": "fr"})");
  EXPECT_TRUE(Call(*server_, RequestOf({"w4"}, "fr")).first.ok());
  EXPECT_EQ(count("OK", "http"), http + 1);
  EXPECT_EQ(count("OK", "grpc"), grpc + 1);
  // 80,000 sentences, and a client that waits a moment; the engine may know that it is too short.
  const auto [status, response] =
      Call(*server_, RequestOf(std::vector<std::string>(16384, "w4! w6! w8! w9! w5!"), "fr"),
           std::chrono::milliseconds(50));
  EXPECT_THAT(status.error_code(),
              AnyOf(grpc::StatusCode::DEADLINE_EXCEEDED, grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_TRUE(BackToZero(server_->metrics_port()));
  EXPECT_TRUE(Call(*server_, RequestOf({"w4"}, "fr")).first.ok());
}

}  // namespace
}  // namespace beamwright::e2e
