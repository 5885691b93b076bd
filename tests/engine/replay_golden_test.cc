// Golden requests that are replayed at load, on a decoder small enough to know its answers.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/bundle/bundle_files.h"
#include "engine/golden.h"
#include "engine/load_model.h"
#include "include/beamwright/engine.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using ::testing::HasSubstr;

class ReplayGoldenTest : public ::testing::Test {
 protected:
  ReplayGoldenTest() {
    auto model = DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(3),
                                                                  engine_testing::TableOptions()));
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto engine = Engine::Start({1, 64, 64});
    v1::Source source;
    source.mutable_ids()->add_ids(4);
    auto decoded = (*engine)->DecodeAndWait(model_, source, v1::DecodeOptions());
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    answer_ = *std::move(decoded);
  }
  // A line of the file; `more` are further fields.
  std::string Line(const v1::Decoded& expected, const std::string& more = "") const {
    v1::Decoded hypotheses;
    *hypotheses.mutable_hypotheses() = expected.hypotheses();
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(hypotheses, &json).ok());
    json.pop_back();
    return absl::StrCat(R"({"source": {"ids": {"ids": [4]}}, "options": {}, )", json.substr(1),
                        more.empty() ? "" : ", ", more, "}\n");
  }
  absl::Status Replay(const std::string& content, int max_requests = 100) const {
    return ReplayGolden(model_, content, max_requests);
  }

  std::shared_ptr<const DecodeModel> model_;
  v1::Decoded answer_;
};

TEST_F(ReplayGoldenTest, TheModelsOwnAnswersAreGood) {
  EXPECT_TRUE(Replay("").ok());
  EXPECT_TRUE(Replay(Line(answer_)).ok()) << Replay(Line(answer_));
  EXPECT_TRUE(
      Replay(Line(answer_, absl::StrCat("\"numerics\": \"", model_->numerics(), "\""))).ok());
}

TEST_F(ReplayGoldenTest, OtherTokensAreNot) {
  v1::Decoded other = answer_;
  v1::Hypothesis& best = *other.mutable_hypotheses(0);
  best.set_tokens(0, best.tokens(0) == 2 ? 3 : 2);
  best.set_score(best.score() + 1);  // so that no margin excuses it
  const absl::Status status = Replay(Line(answer_) + Line(other) + Line(other));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 2: tokens ["));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 of 3 requests"));
  // Nearly as good as the best: another order of sums may prefer it.
  best.set_score(answer_.hypotheses(0).score() + 1e-5);
  other.mutable_hypotheses()->DeleteSubrange(1, other.hypotheses_size() - 1);
  EXPECT_TRUE(Replay(Line(other)).ok());
  // In the same class of numerics nothing excuses anything.
  const std::string same = absl::StrCat("\"numerics\": \"", model_->numerics(), "\"");
  EXPECT_FALSE(Replay(Line(other, same)).ok());
  v1::Decoded score = answer_;
  score.mutable_hypotheses(0)->set_score(score.hypotheses(0).score() + 1e-9);
  EXPECT_TRUE(Replay(Line(score)).ok());
  EXPECT_FALSE(Replay(Line(score, same)).ok());
}

TEST_F(ReplayGoldenTest, RequestsAreSpreadOverTheFile) {
  v1::Decoded other = answer_;
  other.mutable_hypotheses(0)->add_tokens(1);
  other.mutable_hypotheses(0)->set_score(5);
  const std::string content = Line(answer_) + Line(answer_) + Line(other) + Line(answer_);
  EXPECT_TRUE(Replay(content, 1).ok());
  EXPECT_FALSE(Replay(content, 2).ok());  // lines 1 and 3
}

TEST_F(ReplayGoldenTest, LinesThatAreNoneAreNamed) {
  const auto message = [this](const std::string& line) {
    const absl::Status status = Replay(Line(answer_) + line);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    return std::string(status.message());
  };
  EXPECT_THAT(message("hello"), HasSubstr("golden.jsonl: line 2: is not a JSON object"));
  EXPECT_THAT(message("{}"), HasSubstr("has no field 'source'"));
  EXPECT_THAT(message(R"({"source": "a"})"), HasSubstr("has no field 'options'"));
  EXPECT_THAT(message(R"({"source": "a", "options": {"beams": 1}, "hypotheses": []})"),
              HasSubstr("field 'options'"));
  EXPECT_THAT(message(R"({"source": "a", "options": {}, "hypotheses": []})"),
              HasSubstr("'hypotheses': is empty"));
}

// Large files are hashed while the model is compiled.
TEST(LoadModelTest, WhatElseFailsIsSaidOnlyIfTheFilesAreTheListedOnes) {
  const bundle::TempFolder temp;
  WriteBundle(temp, "word/3");  // nothing can decode with it
  const std::string weights(size_t{4} << 20, 'w');
  temp.Write("word/3/weights.bin", weights);
  temp.Write("word/3/MANIFEST.sha256", absl::StrCat(bundle::Sha256(weights), "  weights.bin\n"));
  const auto load = [&] { return LoadModel(temp.At("word/3"), {}, CompileOptions()).status(); };
  EXPECT_EQ(load().code(), absl::StatusCode::kInvalidArgument) << load();
  temp.Write("word/3/weights.bin", weights.substr(1) + "v");
  EXPECT_EQ(load().code(), absl::StatusCode::kDataLoss) << load();
  EXPECT_THAT(std::string(load().message()),
              HasSubstr(absl::StrCat("bundle '", temp.At("word/3"),
                                     "': 'weights.bin' is not the file that MANIFEST.sha256 ")));
}

}  // namespace
}  // namespace beamwright::engine
