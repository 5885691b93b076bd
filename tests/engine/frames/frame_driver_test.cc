// The frame driver's limits, step by step: what it takes of streams and how many rows a step has,
// which answer a request gets, and what is free again. Requests are advanced as in the engine; the
// stepper records, and moves the clock by moving what requests wait for.
#include "engine/frames/frame_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/frames/frame_request.h"
#include "engine/frames/frame_search_kind.h"
#include "engine/options/decode_options.h"
#include "ops/base/steady_time.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/language_model.h"

namespace beamwright::engine {
namespace {

using engine_testing::AddLanguageModel;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::kColumns;
using engine_testing::ModelPtr;
using ::testing::HasSubstr;

ModelPtr FramesModel() {
  engine_testing::CtcOptions options;
  options.has_encoder = false;
  bundle::Bundle bundle = CtcBundle(options);
  AddLanguageModel(kColumns, bundle);
  return Compiled(std::move(bundle));
}

// Log-probabilities, [1, count, columns].
ops::Tensor Frames(int count) {
  std::vector<float> values;
  for (const double value : engine_testing::CtcLogProbs(engine_testing::RandomFeatures(count, 7))) {
    values.push_back(static_cast<float>(value));
  }
  return ops::Tensor::Of<float>({1, count, kColumns}, values);
}

// Advances CTC requests; looks at them, and may change what became of them.
class LookingStepper final : public FrameStepper {
 public:
  explicit LookingStepper(const DecodeModel& model) : stepper_(model.parts()) {}

  absl::Status RunModel(const ops::ExecutionContext& context,
                        absl::Span<FrameRequest* const> requests) override {
    return stepper_.RunModel(context, requests);
  }
  void Advance(const ops::ExecutionContext& context,
               absl::Span<FrameRequest* const> requests) override {
    stepper_.Advance(context, requests);
    rows.push_back(0);
    for (FrameRequest* const request : requests) {
      rows.back() += request->beam_size;
      ++steps[request];
      look(*request);
    }
  }
  void Leave(FrameRequest& request) override { stepper_.Leave(request); }

  std::vector<int> rows;  // of each step
  std::map<const FrameRequest*, int> steps;
  std::function<void(FrameRequest&)> look = [](FrameRequest&) {};

 private:
  ColumnStepper stepper_;
};

class FrameDriverTest : public ::testing::Test {
 protected:
  // A stream; it stays the driver's. Its answer: answers_[of the returned one].
  FrameRequest* Join(const v1::DecodeOptions& options, CallOptions call = {}) {
    feeds_.push_back(std::make_shared<FrameFeed>());
    feeds_.back()->SetBell([] {});
    call.feed = feeds_.back();
    auto made =
        FrameSearchKind().MakeStreamRequest({}, model_, **ResolveOptions(*model_, options), call);
    EXPECT_TRUE(made.ok()) << made.status();
    auto* const request = static_cast<FrameRequest*>(made->get());
    request->done = [this, request](absl::StatusOr<v1::Decoded> answer) {
      answers_.emplace(request, std::move(answer));
    };
    driver_.Join(*std::move(made));
    return request;
  }
  FrameFeed& feed() { return *feeds_.back(); }
  void Step() { driver_.Step({}); }

  const ModelPtr model_ = FramesModel();
  std::vector<std::shared_ptr<FrameFeed>> feeds_;
  std::map<const FrameRequest*, absl::StatusOr<v1::Decoded>> answers_;
  LookingStepper* const stepper_ = new LookingStepper(*model_);  // the driver's
  // The last member: it answers the requests that it has left when it ends.
  FrameDriver driver_{model_, std::unique_ptr<FrameStepper>(stepper_)};
};

TEST_F(FrameDriverTest, NothingIsTakenOfAStreamThatHas256FramesToRead) {
  const FrameRequest* const stream = Join({});
  const auto unread = [stream] {
    return stream->num_frames - stream->segment_begin - stream->num_announced;
  };
  feed().Add(Frames(1000));
  Step();
  ASSERT_EQ(stream->num_frames, 1000);
  int num_refused = 0;
  for (int step = 0; step < 100; ++step) {
    const bool is_full = unread() >= 256;
    const int64_t before = stream->num_frames;
    feed().Add(Frames(1));
    Step();
    if (is_full) {
      ASSERT_EQ(stream->num_frames, before) << step;
      ++num_refused;
    } else {
      ASSERT_GT(stream->num_frames, before) << step;
    }
  }
  EXPECT_GT(num_refused, 40);  // 16 frames are read in a step
  EXPECT_LT(num_refused, 60);
}

TEST_F(FrameDriverTest, AStepHas1024RowsOfStreamsAndAllHaveTheirTurn) {
  std::vector<const FrameRequest*> streams;
  for (int i = 0; i < 600; ++i) {
    v1::DecodeOptions options;
    options.set_beam_size(1 + i % 4);
    streams.push_back(Join(options));
    feed().Add(Frames(200));
  }
  // 1,500 rows: all have stepped after two steps.
  Step();
  Step();
  for (const FrameRequest* const stream : streams) {
    ASSERT_GE(stepper_->steps[stream], 1);
  }
  for (int i = 0; i < 4; ++i) {
    Step();
  }
  for (const int rows : stepper_->rows) {
    EXPECT_GE(rows, 1024);
    EXPECT_LT(rows, 1024 + 4);  // the last stream may have up to 4 rows
  }
  int64_t least = 6;
  int64_t most = 0;
  for (const FrameRequest* const stream : streams) {
    least = std::min<int64_t>(least, stepper_->steps[stream]);
    most = std::max<int64_t>(most, stepper_->steps[stream]);
  }
  EXPECT_LE(most - least, 1);
}

TEST_F(FrameDriverTest, AQuietStreamIsCutWhenItsTimeIsOver) {
  v1::DecodeOptions best_so_far;
  best_so_far.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  FrameRequest* const stream = Join(best_so_far);
  const FrameRequest* const other = Join(best_so_far);
  feeds_[0]->Add(Frames(4));
  // The clock moves while the frames are read: the stream is quiet then, and its time is over.
  stepper_->look = [](FrameRequest& request) {
    request.cut_at = SteadyNow() - absl::Milliseconds(1);
  };
  Step();
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(stream->num_announced, 4);
  EXPECT_LT(driver_.next_work(), SteadyNow());
  Step();
  ASSERT_EQ(answers_.count(stream), 1);
  ASSERT_TRUE(answers_.at(stream).ok()) << answers_.at(stream).status();
  ASSERT_GT(answers_.at(stream)->hypotheses_size(), 0);
  EXPECT_EQ(answers_.at(stream)->hypotheses(0).finish_reason(), v1::FINISH_REASON_DEADLINE);
  EXPECT_EQ(answers_.count(other), 0) << "the other one has time";
}

TEST_F(FrameDriverTest, ACancelledStreamIsNotAnsweredWithWhatItHas) {
  v1::DecodeOptions best_so_far;
  best_so_far.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  CallOptions call;
  const auto cancelled = std::make_shared<CancelFlag>();
  call.cancelled = cancelled;
  for (const bool while_it_steps : {false, true}) {
    answers_.clear();
    FrameRequest* const stream = Join(best_so_far, call);
    feed().Add(Frames(100));
    if (!while_it_steps) {
      Step();
    }
    cancelled->Cancel();
    stream->cut_at = absl::InfinitePast();
    if (while_it_steps) {
      driver_.AnswerMeanwhile(SteadyNow(), absl::OkStatus(), nullptr);
    } else {
      Step();
    }
    ASSERT_EQ(answers_.count(stream), 1);
    EXPECT_TRUE(absl::IsCancelled(answers_.at(stream).status())) << answers_.at(stream).status();
  }
}

TEST_F(FrameDriverTest, WhatIsWrongWithTheModelsNumbersIsNotTheCallersFault) {
  const std::pair<absl::Status, absl::StatusCode> cases[] = {
      {absl::InvalidArgumentError("frame 3: NaN"), absl::StatusCode::kInternal},
      {absl::ResourceExhaustedError("no memory"), absl::StatusCode::kResourceExhausted}};
  for (const auto& [status, code] : cases) {
    answers_.clear();  // the next request may have the same address
    const FrameRequest* const stream = Join({});
    feed().Add(Frames(4));
    const absl::Status& given = status;
    stepper_->look = [&given](FrameRequest& request) { request.status = given; };
    Step();
    ASSERT_EQ(answers_.count(stream), 1);
    EXPECT_EQ(answers_.at(stream).status().code(), code);
    EXPECT_EQ(answers_.at(stream).status().message(), status.message());
  }
}

// Slots of a language model are numbered from 1: those of a request that left are used again.
TEST_F(FrameDriverTest, SlotsOfALanguageModelAreFreeOnceItsRequestLeaves) {
  int32_t most_slot = 0;
  stepper_->look = [&](FrameRequest& request) {
    for (const int32_t slot : request.row_scorers.at(0).slots) {
      most_slot = std::max(most_slot, slot);
    }
  };
  v1::DecodeOptions options;
  options.set_beam_size(4);
  v1::FusionWeight& fusion = *options.add_fusion();
  fusion.set_name("lm");
  fusion.set_weight(0.5);
  int32_t most_of_first = 0;
  for (int i = 0; i < 20; ++i) {
    const FrameRequest* const stream = Join(options);
    feed().Add(Frames(30));
    feed().Finish();
    while (answers_.count(stream) == 0) {
      Step();
    }
    ASSERT_TRUE(answers_.at(stream).ok()) << answers_.at(stream).status();
    answers_.clear();
    most_of_first = i == 0 ? most_slot : most_of_first;
  }
  EXPECT_GT(most_of_first, 0);
  EXPECT_EQ(most_slot, most_of_first);
}

}  // namespace
}  // namespace beamwright::engine
