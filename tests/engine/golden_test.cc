// The default models, decoded in process, against their goldens: made by a script of plain array
// code that shares nothing with this library (models/train/golden.py).

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/bundle/bundle.h"
#include "engine/load_model.h"
#include "engine/model/parts.h"
#include "google/protobuf/struct.pb.h"
#include "include/beamwright/engine.h"
#include "ops/base/vector_isa.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/table_bundle.h"
#include "tests/support/sanitized.h"

namespace beamwright::engine {
namespace {

struct Golden {
  std::string source;
  v1::DecodeOptions options;
  v1::Decoded expected;
};

// A line is {"source": text, "options": DecodeOptions, "hypotheses": [Hypothesis]} in protobuf's
// JSON form.
Golden ParseGolden(const std::string& line) {
  google::protobuf::Struct object;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
  Golden golden;
  golden.source = object.fields().at("source").string_value();
  const auto parse = [](const google::protobuf::Message& from, google::protobuf::Message* to,
                        const std::string& wrap) {
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(from, &json).ok());
    json = wrap.empty() ? json : absl::StrCat("{\"", wrap, "\":", json, "}");
    const auto status = google::protobuf::util::JsonStringToMessage(json, to);
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  parse(object.fields().at("options"), &golden.options, "");
  parse(object.fields().at("hypotheses"), &golden.expected, "hypotheses");
  return golden;
}

std::string Folder(const std::string& model) {
  return absl::StrCat(BEAMWRIGHT_SOURCE_DIR, "/models/", model, "/1");
}

// All of them; under sanitizers one of eight, which takes them through the same code.
std::vector<Golden> ReadGoldens(const std::string& model) {
  std::ifstream file(Folder(model) + "/golden.jsonl");
  std::vector<Golden> goldens;
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    if (!testing_support::kSanitized || count % 8 == 0) {
      goldens.push_back(ParseGolden(line));
    }
  }
  return goldens;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto bundle = bundle::LoadBundle(Folder(GetParam()));
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    auto compiled = DecodeModel::Compile(*std::move(bundle));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    model_ = *std::move(compiled);
  }

  // Decodes all goldens at once (so that they share steps), with the given engine.
  std::vector<v1::Decoded> DecodeAll(const std::vector<Golden>& goldens, int threads,
                                     int max_rows) const {
    auto engine = Engine::Start({threads, max_rows, 100000});
    EXPECT_TRUE(engine.ok());
    std::vector<v1::Decoded> decoded(goldens.size());
    absl::BlockingCounter left(static_cast<int>(goldens.size()));
    for (size_t i = 0; i < goldens.size(); ++i) {
      v1::Source source;
      source.set_text(goldens[i].source);
      (*engine)->Decode(model_, source, goldens[i].options, {},
                        [&, i](absl::StatusOr<v1::Decoded> result) {
                          EXPECT_TRUE(result.ok()) << result.status();
                          decoded[i] = result.ok() ? *std::move(result) : v1::Decoded();
                          left.DecrementCount();
                        });
    }
    left.Wait();
    return decoded;
  }

  std::shared_ptr<const DecodeModel> model_;
};

TEST_P(GoldenTest, HypothesesEqualTheGoldens) {
  const std::vector<Golden> goldens = ReadGoldens(GetParam());
  ASSERT_GE(goldens.size(), 40u);
  const std::vector<v1::Decoded> decoded = DecodeAll(goldens, 2, 1024);
  for (size_t i = 0; i < goldens.size(); ++i) {
    const v1::Decoded& expected = goldens[i].expected;
    ASSERT_EQ(decoded[i].hypotheses_size(), expected.hypotheses_size()) << goldens[i].source;
    for (int h = 0; h < expected.hypotheses_size(); ++h) {
      const v1::Hypothesis& got = decoded[i].hypotheses(h);
      const v1::Hypothesis& want = expected.hypotheses(h);
      const std::string where = absl::StrCat(goldens[i].source, " hypothesis ", h);
      EXPECT_THAT(got.tokens(), ::testing::ElementsAreArray(want.tokens())) << where;
      EXPECT_EQ(got.text(), want.text()) << where;
      EXPECT_EQ(got.finish_reason(), want.finish_reason()) << where;
      EXPECT_NEAR(got.score(), want.score(), 1e-4) << where;
      EXPECT_NEAR(got.log_prob(), want.log_prob(), 1e-4) << where;
      ASSERT_EQ(got.token_log_probs_size(), want.token_log_probs_size()) << where;
      double sum = 0;
      for (int t = 0; t < want.token_log_probs_size(); ++t) {
        EXPECT_NEAR(got.token_log_probs(t), want.token_log_probs(t), 1e-4) << where;
        sum += got.token_log_probs(t);
      }
      EXPECT_EQ(sum, got.log_prob()) << where;
    }
  }
}

// Promise 1: in company, with one thread or two, in a trickle (max_rows 8: a beam of 8 runs alone),
// and with a narrower instruction set: the same bits.
TEST_P(GoldenTest, AnswersDependOnTheRequestAlone) {
  const std::vector<Golden> goldens = ReadGoldens(GetParam());
  const std::vector<v1::Decoded> together = DecodeAll(goldens, 2, 1024);
  const std::vector<v1::Decoded> one_thread = DecodeAll(goldens, 1, 1024);
  const std::vector<v1::Decoded> trickle = DecodeAll(goldens, 2, 8);
  const ScopedVectorIsa narrower(VectorIsa::kAvx2);
  const std::vector<v1::Decoded> avx2 = DecodeAll(goldens, 1, 1024);
  for (size_t i = 0; i < goldens.size(); ++i) {
    for (const v1::Decoded* other : {&one_thread[i], &trickle[i], &avx2[i]}) {
      ASSERT_EQ(other->hypotheses_size(), together[i].hypotheses_size());
      for (int h = 0; h < other->hypotheses_size(); ++h) {
        EXPECT_EQ(other->hypotheses(h).SerializeAsString(),
                  together[i].hypotheses(h).SerializeAsString())
            << goldens[i].source;
      }
    }
  }
}

// The models' attention runs request by request, everything else over all rows.
TEST_P(GoldenTest, TheStepRunsOverRowsOfAllRequests) {
  const ops::RowPlan& plan = model_->parts().decoder().body->plan();
  EXPECT_TRUE(plan.separable) << plan.reason;
  int per_request = 0;
  for (const bool flag : plan.per_request) {
    per_request += flag ? 1 : 0;
  }
  EXPECT_GT(per_request, 0);
  EXPECT_LT(per_request, 20);
  EXPECT_TRUE(model_->encodes_together()) << model_->encodes_apart();
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("g2p-en", "p2g-en"),
                         [](const auto& tested) {
                           return absl::StrReplaceAll(tested.param, {{"-", "_"}});
                         });

}  // namespace

// Golden requests that are replayed at load, on a decoder small enough to know its answers.

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
