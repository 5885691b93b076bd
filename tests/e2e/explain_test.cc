// `beamwright explain` against a real server: what it prints of a search is what decode answers.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/process.h"
#include "tests/e2e/e2e_test.h"

namespace beamwright::e2e {
namespace {

using client::Beamwright;
using client::ProcessResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ExplainTest : public E2eTest {
 protected:
  ProcessResult Explain(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"explain", "--server", server_->address()});
    return Beamwright(arguments);
  }

  std::vector<std::string> Answers(const std::string& source, int beam_size) {
    v1::DecodeRequest request = Request({source});
    request.mutable_options()->set_beam_size(beam_size);
    request.mutable_options()->set_n_best(beam_size);
    EXPECT_TRUE(Call(request).ok());
    std::vector<std::string> texts;
    for (const v1::Hypothesis& hypothesis : response_.results(0).decoded().hypotheses()) {
      texts.push_back(hypothesis.text());
    }
    return texts;
  }
};

TEST_F(ExplainTest, EveryAnswerIsFoundAtItsPlace) {
  for (const std::string source : {"read", "minute", "colonel"}) {
    const std::vector<std::string> texts = Answers(source, 4);
    ASSERT_EQ(texts.size(), 4u);
    std::vector<std::string> arguments = {source, "--beam-size", "4", "--n-best", "4"};
    for (const std::string& text : texts) {
      arguments.insert(arguments.end(), {"--target", text});
    }
    const ProcessResult result = Explain(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("Why ", texts[0], " won")));
    const std::vector<std::string> parts = absl::StrSplit(result.out, "What became of ");
    ASSERT_EQ(parts.size(), 5u);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_THAT(parts[i + 1], ::testing::StartsWith(texts[i] + "\n"));
      EXPECT_THAT(parts[i + 1], HasSubstr(absl::StrCat("It is in the answer, at place ", i + 1)));
    }
  }
}

// A greedy search follows one path and leaves all others where they part from it.
TEST_F(ExplainTest, AGreedySearchLosesOthersWhereTheyPart) {
  const std::string greedy = Answers("read", 1)[0];
  const std::vector<std::string> tokens = absl::StrSplit(greedy, ' ');
  for (const std::string& other : Answers("read", 4)) {
    if (other == greedy) {
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(other, ' ');
    size_t same = 0;
    while (same < words.size() && same < tokens.size() && words[same] == tokens[same]) {
      ++same;
    }
    const ProcessResult result = Explain({"read", "--beam-size", "1", "--target", other});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("Lost at step ", same + 1, ":"))) << other;
  }
}

TEST_F(ExplainTest, SaysWhatIsWrong) {
  const ProcessResult unknown = Explain({"read", "--target", "R XX"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.out, HasSubstr("Why R IY1 D won"));
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--target: INVALID_ARGUMENT"), HasSubstr("'XX'")));
  const ProcessResult model = Explain({"read", "--model", "none"});
  EXPECT_EQ(model.exit_code, 1);
  EXPECT_THAT(model.err, HasSubstr("NOT_FOUND"));
  const ProcessResult samples =
      Explain({"read", "--sampling", "random", "--n-best", "3", "--target", "K AE1 T"});
  EXPECT_EQ(samples.exit_code, 0) << samples.err;
  EXPECT_THAT(samples.out, AllOf(HasSubstr(" was drawn"), HasSubstr("no sample drew \"K\""),
                                 Not(HasSubstr("the model prefers"))));
}

// A bundle's golden answers hold under load.
TEST_F(E2eTest, LoadTestChecksGoldenAnswers) {
  const ProcessResult result =
      Beamwright({"load-test", "--server", server_->address(), "--mix",
                  DefaultModel() + "/golden.jsonl", "--warmup", "0", "--requests", "100"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("checked  100 answers, 0 wrong"));
}

}  // namespace
}  // namespace beamwright::e2e
