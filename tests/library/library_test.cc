// The C interface, called as a program would; answers and errors read back as messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "include/beamwright/beamwright.h"

namespace {

using ::beamwright::status::FromRpcStatus;
using ::beamwright::status::ReasonOf;
using ::testing::HasSubstr;

constexpr char kModel[] = "models/g2p-en";

// A function's outcome with what it left in its buffer, which is freed.
struct Outcome {
  int code;
  std::string bytes;
  std::string message;

  template <typename Message>
  Message As() const {
    Message parsed;
    EXPECT_TRUE(parsed.ParseFromString(bytes));
    return parsed;
  }
  absl::Status Error() const {
    const auto wire = As<google::rpc::Status>();
    EXPECT_EQ(wire.code(), code);
    EXPECT_EQ(wire.message(), message);
    return FromRpcStatus(wire);
  }
  std::string Field() const {
    const auto bad = beamwright::status::DetailOf<google::rpc::BadRequest>(Error());
    return bad.has_value() && bad->field_violations_size() > 0 ? bad->field_violations(0).field()
                                                               : "none";
  }
};

Outcome Taken(int code, beamwright_buffer& buffer) {
  Outcome outcome{code, std::string(static_cast<const char*>(buffer.data), buffer.size),
                  buffer.message == nullptr ? "" : buffer.message};
  EXPECT_EQ(buffer.message == nullptr, code == BEAMWRIGHT_OK);
  beamwright_buffer_free(&buffer);
  EXPECT_EQ(buffer.data, nullptr);
  return outcome;
}

using Function = int (*)(beamwright_model*, const void*, size_t, int64_t, beamwright_buffer*);

Outcome Call(Function function, beamwright_model* model, const std::string& request,
             int64_t timeout_ms = 0) {
  beamwright_buffer buffer;
  return Taken(function(model, request.data(), request.size(), timeout_ms, &buffer), buffer);
}

Outcome Load(const char* path, const beamwright_options* options, beamwright_model** model) {
  beamwright_buffer buffer;
  return Taken(beamwright_load(path, options, model, &buffer), buffer);
}

beamwright_options Quick() {
  beamwright_options options = {};
  options.struct_size = sizeof(options);
  options.num_threads = 1;
  options.golden_requests = -1;
  return options;
}

beamwright::v1::DecodeRequest Words(const std::vector<std::string>& words) {
  beamwright::v1::DecodeRequest request;
  for (const std::string& word : words) {
    request.add_sources()->set_text(word);
  }
  return request;
}

class LibraryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const beamwright_options options = Quick();
    ASSERT_EQ(Load(kModel, &options, &model_).message, "");
  }
  static void TearDownTestSuite() { beamwright_free(model_); }

  static beamwright_model* model_;
};
beamwright_model* LibraryTest::model_ = nullptr;

TEST_F(LibraryTest, TellsItsVersions) {
  EXPECT_EQ(beamwright_abi_version(), BEAMWRIGHT_ABI_VERSION);
  EXPECT_THAT(beamwright_version(), ::testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
}

TEST_F(LibraryTest, DecodesEachSourceOnItsOwn) {
  auto request = Words({"cat", "", "dog"});
  request.mutable_options()->set_beam_size(3);
  request.mutable_options()->set_n_best(2);
  const Outcome outcome = Call(beamwright_decode, model_, request.SerializeAsString());
  ASSERT_EQ(outcome.code, BEAMWRIGHT_OK) << outcome.message;
  const auto response = outcome.As<beamwright::v1::DecodeResponse>();
  EXPECT_EQ(response.model(), "g2p-en");
  EXPECT_EQ(response.version(), "1");
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).decoded().hypotheses_size(), 2);
  EXPECT_EQ(response.results(0).decoded().hypotheses(0).text(), "K AE1 T");
  EXPECT_EQ(response.results(1).error().code(), BEAMWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(response.results(2).decoded().hypotheses(0).text(), "D AO1 G");
}

TEST_F(LibraryTest, ScoresWhatASearchReports) {
  const auto decoded = Call(beamwright_decode, model_, Words({"recurrent"}).SerializeAsString())
                           .As<beamwright::v1::DecodeResponse>();
  const auto& best = decoded.results(0).decoded().hypotheses(0);
  beamwright::v1::ScoreRequest request;
  request.set_model("g2p-en");
  request.set_version("1");
  request.add_sources()->mutable_source()->set_text("recurrent");
  request.mutable_sources(0)->add_targets()->set_text(best.text());
  const Outcome outcome = Call(beamwright_score, model_, request.SerializeAsString());
  ASSERT_EQ(outcome.code, BEAMWRIGHT_OK) << outcome.message;
  const auto response = outcome.As<beamwright::v1::ScoreResponse>();
  EXPECT_EQ(response.results(0).scored().targets(0).hypothesis().log_prob(), best.log_prob());
}

TEST_F(LibraryTest, AlignsAndNamesFieldsOfTheRequestToAlign) {
  beamwright::v1::AlignRequest request;
  auto& pair = *request.add_pairs();
  pair.mutable_source()->set_text("cat");
  pair.mutable_target()->set_text("K AE1 T");
  const Outcome outcome = Call(beamwright_align, model_, request.SerializeAsString());
  ASSERT_EQ(outcome.code, BEAMWRIGHT_OK) << outcome.message;
  EXPECT_THAT(outcome.As<beamwright::v1::AlignResponse>().results(0).alignment().positions(),
              ::testing::ElementsAre(0, 1, 2));
  pair.mutable_target()->set_text("no such tokens");
  EXPECT_EQ(Call(beamwright_align, model_, request.SerializeAsString()).Field(),
            "pairs[0].target.text");
  EXPECT_EQ(Call(beamwright_align, model_, "").Field(), "pairs");
}

TEST_F(LibraryTest, DescribesTheModel) {
  beamwright_buffer buffer;
  const int code = beamwright_describe(model_, &buffer);
  const auto description = Taken(code, buffer).As<beamwright::v1::ModelDescription>();
  EXPECT_EQ(description.summary().name(), "g2p-en");
  EXPECT_FALSE(description.numerics().empty());
}

TEST_F(LibraryTest, RefusesWhatIsWrongWithACall) {
  auto request = Words({"cat"});
  request.mutable_options()->set_beam_size(500);
  EXPECT_EQ(Call(beamwright_decode, model_, request.SerializeAsString()).Field(),
            "options.beam_size");
  EXPECT_EQ(Call(beamwright_decode, model_, "").Field(), "sources");
  EXPECT_EQ(Call(beamwright_decode, model_, Words({"cat"}).SerializeAsString(), -1).Field(),
            "timeout_ms");
  EXPECT_EQ(Call(beamwright_decode, model_, Words({"", ""}).SerializeAsString()).Field(),
            "sources[0].text");
  const Outcome garbage = Call(beamwright_decode, model_, "\xFF\xFF");
  EXPECT_EQ(garbage.code, BEAMWRIGHT_INVALID_ARGUMENT);
  EXPECT_THAT(garbage.message, HasSubstr("beamwright.v1.DecodeRequest"));
  // Tag and length of the text of a source, and a byte that is not UTF-8.
  testing::internal::CaptureStderr();
  EXPECT_EQ(Call(beamwright_decode, model_, "\x1A\x03\x0A\x01\xFF").code,
            BEAMWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  request = Words({"cat"});
  request.set_model("p2g-en");
  const Outcome unknown = Call(beamwright_decode, model_, request.SerializeAsString());
  EXPECT_EQ(unknown.code, BEAMWRIGHT_NOT_FOUND);
  EXPECT_THAT(unknown.message, HasSubstr("loaded: 'g2p-en'"));
  request.clear_model();
  request.set_version("1");
  EXPECT_EQ(Call(beamwright_decode, model_, request.SerializeAsString()).code, BEAMWRIGHT_OK);
  request.set_version("2");
  const Outcome version = Call(beamwright_decode, model_, request.SerializeAsString());
  EXPECT_EQ(version.code, BEAMWRIGHT_NOT_FOUND);
  EXPECT_THAT(version.message, HasSubstr("version '2' is not found"));
}

TEST_F(LibraryTest, ATimeoutEndsACall) {
  auto request = Words(std::vector<std::string>(4000, "antidisestablishmentarianism"));
  request.mutable_options()->set_beam_size(20);
  const Outcome outcome = Call(beamwright_decode, model_, request.SerializeAsString(), 1);
  EXPECT_EQ(outcome.code, BEAMWRIGHT_DEADLINE_EXCEEDED) << outcome.message;
}

// A server would refuse the call at once because calls before it took longer; here no other server
// could do it in time, so it is tried.
TEST_F(LibraryTest, ACallThatMayBeLateIsTried) {
  auto request = Words(std::vector<std::string>(8, "antidisestablishmentarianism"));
  request.mutable_options()->set_beam_size(20);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Call(beamwright_decode, model_, request.SerializeAsString()).code, BEAMWRIGHT_OK);
  }
  const Outcome outcome = Call(beamwright_decode, model_, request.SerializeAsString(), 1);
  EXPECT_EQ(outcome.code, BEAMWRIGHT_DEADLINE_EXCEEDED) << outcome.message;
  EXPECT_NE(ReasonOf(outcome.Error()), beamwright::status::reason::kWouldMissDeadline);
}

// A bundle whose expected answers are wrong is loaded where they are not to be tried.
TEST_F(LibraryTest, ExpectedAnswersAreTriedUnlessToldOtherwise) {
  const std::string folder = testing::TempDir() + "/golden-bundle";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(std::string(kModel) + "/1", folder);
  std::filesystem::remove(folder + "/MANIFEST.sha256");
  std::ofstream(folder + "/golden.jsonl") << "not JSON\n";
  beamwright_options options = Quick();
  beamwright_model* model = nullptr;
  EXPECT_EQ(Load(folder.c_str(), &options, &model).message, "");
  beamwright_free(model);
  options.golden_requests = 0;
  EXPECT_THAT(Load(folder.c_str(), &options, &model).message, HasSubstr("golden.jsonl"));
  EXPECT_EQ(model, nullptr);
  std::filesystem::remove_all(folder);
}

TEST_F(LibraryTest, RefusesWhatIsWrongWithALoad) {
  beamwright_model* model = model_;
  const Outcome missing = Load("models/no-such", nullptr, &model);
  EXPECT_EQ(missing.code, BEAMWRIGHT_NOT_FOUND);
  EXPECT_THAT(missing.message, HasSubstr("models/no-such"));
  EXPECT_EQ(model, nullptr);
  beamwright_options options = Quick();
  options.num_threads = -1;
  EXPECT_EQ(Load(kModel, &options, &model).Field(), "options.num_threads");
  options = Quick();
  options.max_rows = -1;
  EXPECT_EQ(Load(kModel, &options, &model).Field(), "options.max_rows");
  options = Quick();
  options.precision = "f64";
  EXPECT_EQ(Load(kModel, &options, &model).Field(), "options.precision");
  options = Quick();
  options.golden_requests = -2;
  EXPECT_EQ(Load(kModel, &options, &model).Field(), "options.golden_requests");
  options = {};
  EXPECT_EQ(Load(kModel, &options, &model).Field(), "options.struct_size");
}

TEST_F(LibraryTest, FreesNothingTwice) {
  beamwright_buffer empty = {};
  beamwright_buffer_free(&empty);
  beamwright_buffer_free(nullptr);
  beamwright_free(nullptr);
}

TEST_F(LibraryTest, ThreadsShareAModel) {
  const auto decode = [](const std::string& word) {
    return Call(beamwright_decode, model_, Words({word}).SerializeAsString())
        .As<beamwright::v1::DecodeResponse>()
        .results(0)
        .decoded()
        .hypotheses(0)
        .SerializeAsString();
  };
  const std::vector<std::string> words = {"recurrent", "beam", "search"};
  std::vector<std::string> alone;
  for (const std::string& word : words) {
    alone.push_back(decode(word));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < words.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(decode(words[i]), alone[i]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Every function in the child of a fork; returns the line of the first that does otherwise.
int RefusedInChild(beamwright_model* model) {
  const std::string request = Words({"cat"}).SerializeAsString();
  for (const Function function : {beamwright_decode, beamwright_score, beamwright_align}) {
    const Outcome outcome = Call(function, model, request);
    if (outcome.code != BEAMWRIGHT_FAILED_PRECONDITION || ReasonOf(outcome.Error()) != "FORKED") {
      return 1;
    }
  }
  beamwright_model* another = nullptr;
  if (ReasonOf(Load(kModel, nullptr, &another).Error()) != "FORKED") {
    return 2;
  }
  beamwright_buffer buffer;
  if (beamwright_describe(model, &buffer) != BEAMWRIGHT_FAILED_PRECONDITION) {
    return 3;
  }
  beamwright_buffer_free(&buffer);
  beamwright_free(model);
  return 0;
}

TEST_F(LibraryTest, AForkedChildIsRefusedAndTheParentGoesOn) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // instead of hanging
    _exit(RefusedInChild(model_));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Call(beamwright_decode, model_, Words({"cat"}).SerializeAsString()).code,
            BEAMWRIGHT_OK);
}

}  // namespace
