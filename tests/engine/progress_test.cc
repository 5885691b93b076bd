// What a stream receives while the engine decodes, and what a search answers whose time is up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/beam/beam_driver.h"
#include "engine/options/decode_options.h"
#include "engine/schedule/encode.h"
#include "include/beamwright/engine.h"
#include "ops/base/steady_time.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::RandomTable;
using engine_testing::TableBundle;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

std::shared_ptr<const DecodeModel> Model() {
  auto compiled = DecodeModel::Compile(TableBundle(RandomTable(51), {}));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

struct Told {
  std::map<int, std::vector<int32_t>> stable;  // by sample
  int num_messages = 0;
  std::vector<std::vector<int32_t>> provisional;
};

// Decodes and gathers the progress.
absl::StatusOr<v1::Decoded> Listen(Engine& engine, const std::shared_ptr<const DecodeModel>& model,
                                   const v1::Source& source, const v1::DecodeOptions& options,
                                   bool provisional, Told& told) {
  CallOptions call;
  call.num_provisional = provisional ? 1 : 0;
  call.progress = [&](Progress progress) {
    ++told.num_messages;
    for (const search::StableTokens::Piece& piece : progress.stable) {
      std::vector<int32_t>& all = told.stable[piece.sample];
      EXPECT_EQ(piece.position, static_cast<int>(all.size()));
      all.insert(all.end(), piece.tokens.begin(), piece.tokens.end());
    }
    if (!progress.provisional.empty()) {
      told.provisional.push_back(progress.provisional[0].tokens);
    }
  };
  return engine.DecodeAndWait(model, source, options, call);
}

class ProgressTest : public ::testing::Test {
 protected:
  const std::shared_ptr<const DecodeModel> model_ = Model();
  const std::unique_ptr<Engine> engine_ = *Engine::Start({1, 512, 1000});
};

TEST_F(ProgressTest, StableTokensAreTheBeginningOfTheBestAndInTheEndAllOfIt) {
  int before_the_end = 0;
  for (int id = 0; id < 50; ++id) {
    v1::DecodeOptions options;
    options.set_beam_size(3);
    options.set_max_length(12);
    Told told;
    const auto answer = Listen(*engine_, model_, Ids({id, 3}), options, true, told);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(told.stable[0], ElementsAreArray(answer->hypotheses(0).tokens()));
    EXPECT_EQ(static_cast<int>(told.provisional.size()), answer->steps() - 1);
    EXPECT_GT(answer->first_token_ms(), 0);
    before_the_end += told.num_messages > 1 ? 1 : 0;
    // Listening changes nothing.
    const auto silent = engine_->DecodeAndWait(model_, Ids({id, 3}), options);
    EXPECT_EQ(silent->hypotheses(0).SerializeAsString(), answer->hypotheses(0).SerializeAsString());
    EXPECT_EQ(silent->first_token_ms(), 0);
  }
  EXPECT_GT(before_the_end, 25);
}

TEST_F(ProgressTest, GreedySearchTellsATokenAStep) {
  v1::DecodeOptions options;
  options.set_beam_size(1);
  options.set_max_length(12);
  Told told;
  const auto answer = Listen(*engine_, model_, Ids({4, 4}), options, false, told);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(told.num_messages, answer->steps());
  EXPECT_TRUE(told.provisional.empty());
  EXPECT_THAT(told.stable[0], ElementsAreArray(answer->hypotheses(0).tokens()));
}

TEST_F(ProgressTest, EachSampleHasItsOwnStream) {
  v1::DecodeOptions options;
  options.set_sampling(v1::SAMPLING_RANDOM);
  options.set_n_best(5);
  options.set_seed(3);
  options.set_max_length(10);
  Told told;
  const auto answer = Listen(*engine_, model_, Ids({9}), options, false, told);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->hypotheses_size(), 5);
  for (int sample = 0; sample < 5; ++sample) {
    EXPECT_THAT(told.stable[sample], ElementsAreArray(answer->hypotheses(sample).tokens()));
  }
  EXPECT_EQ(told.num_messages, answer->steps());
}

// A request in a driver of the test's own, so that time passes when the test says so.
class OneRequest {
 public:
  OneRequest(const std::shared_ptr<const DecodeModel>& model, const v1::DecodeOptions& options,
             CallOptions call = {})
      : driver_(model) {
    auto request = std::make_unique<BeamRequest>();
    const auto resolved = *ResolveOptions(*model, options);
    request->model = model;
    request->source = *PrepareSource(*model, Ids({6, 2}));
    request->search =
        *search::BeamSearch::Create(*OptionsForSource(*model, *resolved, request->source));
    request->beam_size = resolved->search.beam_size;
    request->SetUpDecoders();
    request->call = std::move(call);
    request->accepted = request->started = SteadyNow();
    request->done = Engine::Callback([this](absl::StatusOr<v1::Decoded> answer) {
      ++num_answers_;
      answer_ = std::move(answer);
    });
    request_ = request.get();
    EncodeGroup group;
    group.requests.push_back(std::move(request));
    for (auto& ready : Encode(context_, absl::MakeSpan(&group, 1))) {
      driver_.Join(std::move(ready));
    }
  }

  void Step() { driver_.Step(context_); }
  BeamRequest& request() { return *request_; }  // while it is not answered
  int num_answers() const { return num_answers_; }
  const absl::StatusOr<v1::Decoded>& answer() const { return answer_; }
  const BeamDriver& driver() const { return driver_; }

 private:
  ops::ExecutionContext context_;
  BeamDriver driver_;
  BeamRequest* request_ = nullptr;
  absl::StatusOr<v1::Decoded> answer_;
  int num_answers_ = 0;
};

v1::DecodeOptions BestSoFar() {
  v1::DecodeOptions options;
  options.set_beam_size(4);
  options.set_n_best(4);
  options.set_max_length(12);
  options.set_stop(v1::STOP_MODE_NEVER);
  options.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  return options;
}

TEST_F(ProgressTest, ASearchWhoseTimeIsUpAnswersWhatItHas) {
  for (int steps = 1; steps < 12; ++steps) {
    OneRequest one(model_, BestSoFar());
    for (int i = 0; i < steps; ++i) {
      one.Step();
    }
    ASSERT_EQ(one.num_answers(), 0);
    one.request().cut_at = absl::InfinitePast();
    one.Step();
    ASSERT_EQ(one.num_answers(), 1);
    ASSERT_TRUE(one.answer().ok()) << one.answer().status();
    EXPECT_EQ(one.answer()->steps(), steps) << "no step was made after that";
    EXPECT_EQ(one.answer()->hypotheses_size(), 4);
    bool cut = false;
    for (const v1::Hypothesis& hypothesis : one.answer()->hypotheses()) {
      EXPECT_FALSE(cut && hypothesis.finish_reason() == v1::FINISH_REASON_EOS)
          << "what finished stands first";
      cut = cut || hypothesis.finish_reason() == v1::FINISH_REASON_DEADLINE;
      if (hypothesis.finish_reason() == v1::FINISH_REASON_DEADLINE) {
        EXPECT_EQ(hypothesis.tokens_size(), steps);
      }
    }
    EXPECT_TRUE(one.driver().idle());
  }
}

TEST_F(ProgressTest, WhatIsStableStaysSoWhenTheTimeIsUp) {
  std::vector<int32_t> stable;
  CallOptions call;
  call.progress = [&](Progress progress) {
    for (const search::StableTokens::Piece& piece : progress.stable) {
      stable.insert(stable.end(), piece.tokens.begin(), piece.tokens.end());
    }
  };
  v1::DecodeOptions options = BestSoFar();
  options.set_n_best(1);
  OneRequest one(model_, options, call);
  for (int i = 0; i < 6; ++i) {
    one.Step();
  }
  one.request().cut_at = absl::InfinitePast();
  one.Step();
  ASSERT_TRUE(one.answer().ok());
  EXPECT_THAT(stable, ElementsAreArray(one.answer()->hypotheses(0).tokens()));
}

TEST_F(ProgressTest, BeforeTheFirstTokenThereIsNothingToAnswer) {
  OneRequest one(model_, BestSoFar());
  one.request().cut_at = absl::InfinitePast();
  one.request().call.deadline = absl::InfinitePast();
  one.Step();
  ASSERT_EQ(one.num_answers(), 1);
  EXPECT_EQ(one.answer().status().code(), absl::StatusCode::kDeadlineExceeded);
}

// O13: cancelled at every step, whether or not it may be cut: answered once, and nothing is left.
TEST_F(ProgressTest, CancelReachesTheSearchAtTheNextStep) {
  for (int steps = 0; steps < 12; ++steps) {
    const auto cancelled = std::make_shared<CancelFlag>();
    CallOptions call;
    call.cancelled = cancelled;
    int told_after = 0;
    call.progress = [&](const Progress&) { told_after += cancelled->cancelled() ? 1 : 0; };
    OneRequest one(model_, BestSoFar(), call);
    for (int i = 0; i < steps; ++i) {
      one.Step();
    }
    cancelled->Cancel();
    one.request().cut_at = absl::InfinitePast();
    one.Step();
    ASSERT_EQ(one.num_answers(), 1);
    EXPECT_EQ(one.answer().status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(told_after, 0);
    EXPECT_TRUE(one.driver().idle());
    EXPECT_EQ(one.driver().reserved().rows, 0);
    EXPECT_EQ(one.driver().reserved().bytes, 0);
  }
}

TEST_F(ProgressTest, ADeadlineIsAnErrorUnlessAskedOtherwise) {
  v1::DecodeOptions options = BestSoFar();
  options.clear_deadline_result();
  CallOptions call;
  call.deadline = absl::InfinitePast();
  OneRequest one(model_, options, call);
  one.Step();
  EXPECT_EQ(one.answer().status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace beamwright::engine
