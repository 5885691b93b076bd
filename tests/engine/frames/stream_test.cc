// Sources that arrive while they are searched: results do not depend on how they were cut,
// are never taken back, and streams that wait cost nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "ops/base/fault_point.h"
#include "ops/base/steady_time.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/language_model.h"
#include "tests/engine/frames/listener.h"
#include "tests/engine/frames/transducer_bundle.h"
#include "tests/engine/hanging_bundle.h"
#include "tests/support/sanitized.h"

namespace beamwright::engine {
namespace {

using engine_testing::AddLanguageModel;
using engine_testing::Bits;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::FeatureSource;
using engine_testing::Listener;
using engine_testing::ModelPtr;
using engine_testing::Predictor;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using engine_testing::TransducerBundle;
using engine_testing::TransducerOptions;
using ::testing::HasSubstr;

// A source of a model without an encoder: [frames, width].
struct Frames {
  std::vector<float> values;
  int width = 0;
  int64_t count() const { return static_cast<int64_t>(values.size()) / width; }
};

ModelPtr CtcModel() {
  engine_testing::CtcOptions options;
  options.has_encoder = false;
  bundle::Bundle bundle = CtcBundle(options);
  AddLanguageModel(engine_testing::kColumns, bundle);
  return Compiled(std::move(bundle));
}

Frames CtcFrames(int count, uint32_t seed) {
  Frames frames;
  frames.width = engine_testing::kColumns;
  for (const double value : engine_testing::CtcLogProbs(RandomFeatures(count, seed))) {
    frames.values.push_back(static_cast<float>(value));
  }
  return frames;
}

ModelPtr TransducerModel(Predictor predictor) {
  TransducerOptions options;
  options.has_encoder = false;
  options.predictor = predictor;
  bundle::Bundle bundle = TransducerBundle(options);
  AddLanguageModel(engine_testing::kTokens, bundle);
  return Compiled(std::move(bundle));
}

Frames TransducerFrames(int count, uint32_t seed) {
  return {RandomFeatures(count, seed), engine_testing::kWidth};
}

ops::Tensor Piece(const Frames& frames, int64_t begin, int64_t end) {
  const auto width = static_cast<int64_t>(frames.width);
  return ops::Tensor::Of<float>({1, end - begin, width}, {frames.values.begin() + begin * width,
                                                          frames.values.begin() + end * width});
}

// Sends the frames in random pieces.
void Send(const Frames& frames, std::mt19937& random, FrameFeed& feed) {
  for (int64_t at = 0; at < frames.count();) {
    const int64_t end = std::min<int64_t>(frames.count(), at + 1 + random() % 9);
    feed.Add(Piece(frames, at, end));
    at = end;
  }
  feed.Finish();
}

v1::DecodeOptions OptionsOf(uint32_t number) {
  v1::DecodeOptions options;
  options.set_beam_size(1 + static_cast<int>(number % 5));
  options.set_n_best(1 + static_cast<int>(number % (1 + number % 5)));
  if (number % 3 == 0) {
    options.add_hotwords()->mutable_ids()->add_ids(1 + static_cast<int>(number % 3));
  }
  if (number % 4 == 1) {
    v1::FusionWeight& fusion = *options.add_fusion();
    fusion.set_name("lm");
    fusion.set_weight(0.5);
  }
  return options;
}

std::vector<search::EndpointRule> RulesOf(uint32_t number) {
  if (number % 2 == 0) {
    return {};
  }
  return {{true, 1 + number % 3, 0}, {false, 0, 5 + number % 7}};
}

struct Kind {
  ModelPtr model;
  Frames (*frames)(int count, uint32_t seed);
};

std::vector<Kind> Kinds() {
  return {{CtcModel(), CtcFrames},
          {TransducerModel(Predictor::kLstm), TransducerFrames},
          {TransducerModel(Predictor::kStateless), TransducerFrames}};
}

TEST(StreamTest, WhatIsToldDependsOnTheFramesAloneAndIsNeverTakenBack) {
  // Of each kind: 10,002, each as a whole as well; sanitizers take ten times as long.
  constexpr uint32_t kStreams = BEAMWRIGHT_SANITIZED ? 334 : 3334;
  std::mt19937 random(26);
  for (const Kind& kind : Kinds()) {
    ASSERT_NE(kind.model, nullptr);
    const auto engine = Started();
    std::vector<std::unique_ptr<Listener>> pieces;
    for (uint32_t i = 0; i < kStreams; ++i) {
      pieces.push_back(std::make_unique<Listener>());
      pieces.back()->call.endpoint = RulesOf(i);
      pieces.back()->Start(*engine, kind.model, OptionsOf(i));
    }
    for (uint32_t i = 0; i < kStreams; ++i) {
      Send(kind.frames(1 + static_cast<int>(i % 40), i), random, pieces[i]->feed());
    }
    for (uint32_t i = 0; i < kStreams; ++i) {
      const Frames frames = kind.frames(1 + static_cast<int>(i % 40), i);
      ASSERT_TRUE(pieces[i]->Wait().ok()) << pieces[i]->Wait().status();
      Listener whole;
      whole.call.endpoint = RulesOf(i);
      whole.feed().Add(Piece(frames, 0, frames.count()));
      whole.feed().Finish();
      whole.Start(*engine, kind.model, OptionsOf(i));
      ASSERT_TRUE(whole.Wait().ok()) << whole.Wait().status();
      EXPECT_EQ(pieces[i]->segments, whole.segments) << i;
      EXPECT_EQ(Bits(*pieces[i]->Wait()), Bits(*whole.Wait())) << i;
      EXPECT_FALSE(pieces[i]->was_contradicted) << i;
      EXPECT_FALSE(whole.was_contradicted) << i;
      if (RulesOf(i).empty()) {
        const auto decoded = engine->DecodeAndWait(
            kind.model, FeatureSource(frames.values, frames.width), OptionsOf(i));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(Bits(*decoded), Bits(*whole.Wait())) << i;
        EXPECT_EQ(whole.segments.size(), 1);
      }
    }
  }
}

TEST(StreamTest, ASegmentIsSearchedAsIfItStoodAlone) {
  for (const Kind& kind : Kinds()) {
    const auto engine = Started();
    const Frames frames = kind.frames(200, 3);
    Listener heard;
    heard.call.endpoint = {{false, 1, 12}};
    heard.Start(*engine, kind.model, OptionsOf(4));
    for (int64_t i = 0; i < frames.count(); ++i) {
      heard.feed().Add(Piece(frames, i, i + 1));
    }
    heard.feed().Finish();
    ASSERT_TRUE(heard.Wait().ok()) << heard.Wait().status();
    ASSERT_GE(heard.segments.size(), 2);
    int64_t end = 0;
    for (const std::string& segment : heard.segments) {
      const int64_t begin = end;
      end = begin + std::stoll(segment.substr(segment.find('+') + 1));
      const auto values = frames.values.begin();
      const auto alone = engine->DecodeAndWait(
          kind.model,
          FeatureSource({values + begin * frames.width, values + end * frames.width}, frames.width),
          OptionsOf(4));
      ASSERT_TRUE(alone.ok());
      EXPECT_EQ(segment, absl::StrCat(begin, "+", end - begin, ":", Bits(*alone)));
    }
    EXPECT_EQ(end, frames.count());
  }
}

// Of a greedy search the segments together say what it says of the whole source, a token across a
// cut once. A recurrent predictor begins anew, so it is left out.
TEST(StreamTest, ASegmentThatWasCutIsGoneOnWith) {
  v1::DecodeOptions greedy;
  greedy.set_beam_size(1);
  for (const Kind& kind : {Kinds()[0], Kinds()[2]}) {
    const auto engine = Started();
    int num_tokens = 0;
    for (uint32_t seed = 0; seed < 50 && !HasFailure(); ++seed) {
      const Frames frames = kind.frames(50, seed);
      Listener heard;
      heard.call.endpoint = {{false, 0, 3 + seed % 9}};
      heard.feed().Add(Piece(frames, 0, frames.count()));
      heard.feed().Finish();
      heard.Start(*engine, kind.model, greedy);
      ASSERT_TRUE(heard.Wait().ok()) << heard.Wait().status();
      std::vector<int32_t> said;
      for (const std::string& segment : heard.segments) {
        v1::Hypothesis hypothesis;
        ASSERT_TRUE(hypothesis.ParseFromString(segment.substr(segment.find(':') + 1)));
        said.insert(said.end(), hypothesis.tokens().begin(), hypothesis.tokens().end());
      }
      const auto whole =
          engine->DecodeAndWait(kind.model, FeatureSource(frames.values, frames.width), greedy);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const auto& tokens = whole->hypotheses(0).tokens();
      EXPECT_EQ(said, std::vector<int32_t>(tokens.begin(), tokens.end())) << seed;
      num_tokens += tokens.size();
    }
    EXPECT_GT(num_tokens, 100);
  }
}

// Until `count` requests run: a request that has just been answered counts until the engine's next
// turn.
void WaitForRunning(const Engine& engine, int count) {
  while (engine.load().running != count) {
    std::this_thread::yield();
  }
}

// Counts steps by model.
class Steps : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override {}
  void OnStep(const DecodeModel& model, const StepFacts&) override {
    absl::MutexLock lock(&mutex_);
    ++steps_[&model];
  }
  int of(const DecodeModel& model) {
    absl::MutexLock lock(&mutex_);
    return steps_[&model];
  }

 private:
  absl::Mutex mutex_;
  std::map<const DecodeModel*, int> steps_;
};

TEST(StreamTest, StreamsThatWaitAreNotStepped) {
  Steps steps;
  EngineOptions options;
  options.num_threads = 1;
  options.max_rows = 8;  // fewer than the streams have
  options.observer = &steps;
  const auto engine = *Engine::Start(options);
  const ModelPtr idle = CtcModel();
  const ModelPtr busy = CtcModel();
  std::vector<std::unique_ptr<Listener>> streams;
  for (int i = 0; i < 100; ++i) {
    streams.push_back(std::make_unique<Listener>());
    streams.back()->Start(*engine, idle, {});
  }
  const Frames frames = CtcFrames(40, 1);
  int before = -1;
  // A request behind them is only answered once they were taken in.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine->DecodeAndWait(busy, FeatureSource(frames.values, frames.width), {}).ok());
    before = i == 10 ? steps.of(*idle) : before;
  }
  WaitForRunning(*engine, 100);
  EXPECT_EQ(engine->load().rows, 0);
  EXPECT_EQ(steps.of(*idle), before);
  EXPECT_GT(steps.of(*busy), 0);
  for (const auto& stream : streams) {
    stream->feed().Add(Piece(frames, 0, 1));
    stream->feed().Finish();
    EXPECT_TRUE(stream->Wait().ok());
  }
  WaitForRunning(*engine, 0);
  EXPECT_EQ(engine->load().bytes, 0);
}

TEST(StreamTest, OneThatWaitsEndsAtItsDeadlineAndWhenItIsGivenUp) {
  const auto engine = Started();
  const ModelPtr model = CtcModel();
  const Frames frames = CtcFrames(4, 1);
  Listener late;
  late.call.deadline = SteadyNow() + absl::Milliseconds(30);
  late.Start(*engine, model, {});
  late.feed().Add(Piece(frames, 0, 4));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Wait().status())) << late.Wait().status();

  const auto cancelled = std::make_shared<CancelFlag>();
  Listener given_up;
  given_up.call.cancelled = cancelled;
  given_up.Start(*engine, model, {});
  given_up.feed().Add(Piece(frames, 0, 4));
  cancelled->Cancel();
  given_up.feed().GiveUp();
  EXPECT_TRUE(absl::IsCancelled(given_up.Wait().status())) << given_up.Wait().status();

  Listener cut;
  cut.call.deadline = SteadyNow() + absl::Milliseconds(60);
  v1::DecodeOptions best_so_far;
  best_so_far.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  cut.Start(*engine, model, best_so_far);
  cut.feed().Add(Piece(frames, 0, 4));
  ASSERT_TRUE(cut.Wait().ok()) << cut.Wait().status();
  EXPECT_EQ(cut.Wait()->hypotheses(0).finish_reason(), v1::FINISH_REASON_DEADLINE);
  EXPECT_EQ(cut.segments.size(), 1);
}

// A feed is full while the engine has taken pieces and not read them. Its sender hears when there
// is room, and when all pieces of more than kFewBytes were read.
TEST(StreamTest, AFeedIsFullUntilTheEngineHasReadWhatItTook) {
  int num_rooms = 0;
  FrameFeed feed([&] { ++num_rooms; });
  const auto add = [&feed](int64_t frames) {
    feed.Add(ops::Tensor::Zeros(ops::DType::kF32, {1, frames, 64}));
  };
  add(FrameFeed::kFullBytes / 256);
  EXPECT_TRUE(feed.is_full());
  EXPECT_EQ(feed.Take().pieces.size(), 1);
  feed.SetUnread(FrameFeed::kFullBytes);
  EXPECT_TRUE(feed.is_full());
  EXPECT_EQ(num_rooms, 0);
  feed.SetUnread(FrameFeed::kFullBytes - 256);
  EXPECT_FALSE(feed.is_full());
  EXPECT_EQ(num_rooms, 1);
  add(2);
  EXPECT_TRUE(feed.is_full());
  EXPECT_EQ(feed.num_bytes(), FrameFeed::kFullBytes + 256);
  EXPECT_EQ(feed.Take().pieces.size(), 1);
  feed.SetUnread(0);
  EXPECT_EQ(num_rooms, 2);
  EXPECT_EQ(feed.num_bytes(), 0);
  add(2);
  feed.Take();
  feed.SetUnread(0);
  EXPECT_EQ(num_rooms, 2) << "for a few bytes";
}

// The engine looked at the flag, the caller gave up, the engine took the news: nothing more comes
// that would wake the request.
TEST(StreamTest, OneThatIsGivenUpWhileItsNewsAreTakenIsNotLeftAside) {
  FrameFeed feed;
  feed.Add(Piece(CtcFrames(1, 1), 0, 1));
  feed.GiveUp();
  EXPECT_EQ(feed.Take().pieces.size(), 1);
  EXPECT_FALSE(feed.SetAside(std::make_shared<WokenRequests>(), 1));
}

// A tenant who may run one source has a stream that waits for frames. Nothing happens in the engine
// until what waits behind it is past its deadline.
TEST(StreamTest, WhatIsQueuedBehindOneThatWaitsEndsAtItsDeadline) {
  const auto engine = Started();
  const ModelPtr model = CtcModel();
  Tenant tenant;
  tenant.name = "one at a time";
  tenant.max_running = 1;
  Listener waits;
  waits.call.tenant = std::make_shared<const Tenant>(tenant);
  waits.Start(*engine, model, {});
  WaitForRunning(*engine, 1);
  Listener behind;
  behind.call.tenant = waits.call.tenant;
  behind.call.deadline = SteadyNow() + absl::Milliseconds(200);
  behind.Start(*engine, model, {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(behind.Wait().status())) << behind.Wait().status();
  const Frames frames = CtcFrames(4, 1);
  waits.feed().Add(Piece(frames, 0, 4));
  waits.feed().Finish();
  EXPECT_TRUE(waits.Wait().ok()) << waits.Wait().status();
}

std::atomic<absl::Notification*> encoder_runs = nullptr;  // notified by a fault hook, once

// An encoder run of another model is interrupted because its caller is gone. What the
// thread computes next is the frames of a stream.
TEST(StreamTest, AnInterruptionIsForTheRunThatItWasRaisedFor) {
  EngineOptions options;
  options.num_threads = 1;
  options.slow_step = absl::Hours(1);  // or the stream would get another thread
  options.step_timeout = absl::Hours(1);
  const auto engine = *Engine::Start(options);
  const ModelPtr model = TransducerModel(Predictor::kLstm);
  const ModelPtr hanging = Compiled(engine_testing::HangingBundle(engine_testing::RandomTable(31)));
  const Frames frames = TransducerFrames(4, 1);
  Listener stream;
  stream.Start(*engine, model, {});
  // Answered behind it: by then it waits for frames.
  ASSERT_TRUE(engine->DecodeAndWait(model, FeatureSource(frames.values, frames.width), {}).ok());
  absl::Notification runs;
  encoder_runs = &runs;
  fault_hook = [](const char* point) {
    absl::Notification* const told =
        point == absl::string_view("engine.encode") ? encoder_runs.exchange(nullptr) : nullptr;
    if (told != nullptr) {
      told->Notify();
    }
    return absl::OkStatus();
  };
  v1::Source hangs;
  for (const int32_t id : engine_testing::SourceOfSum(engine_testing::kHangsInEncoder)) {
    hangs.mutable_ids()->add_ids(id);
  }
  const auto flag = std::make_shared<CancelFlag>();
  CallOptions call;
  call.cancelled = flag;
  absl::Notification given_up;
  engine->Decode(hanging, hangs, {}, call, [&](const absl::StatusOr<v1::Decoded>& answer) {
    EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
    given_up.Notify();
  });
  runs.WaitForNotification();
  fault_hook = nullptr;
  stream.feed().Add(Piece(frames, 0, 4));
  stream.feed().Finish();
  flag->Cancel();
  given_up.WaitForNotification();
  EXPECT_TRUE(stream.Wait().ok()) << stream.Wait().status();
}

struct HeldStep {
  absl::Notification begins;
  absl::Notification may_end;
};
std::atomic<HeldStep*> step_to_hold = nullptr;  // by a fault hook, once

// A model that was slow once has a separate thread, as long as it has requests: a stream, here,
// that waits for frames. A request for more than half of the engine's rows runs meanwhile.
TEST(StreamTest, OneThatWaitsKeepsNobodyFromAModelThatIsSetApart) {
  EngineOptions options;
  options.num_threads = 1;
  options.max_rows = 8;
  options.slow_step = absl::Milliseconds(50);
  const auto engine = *Engine::Start(options);
  const ModelPtr model = CtcModel();
  const Frames frames = CtcFrames(4, 1);
  const v1::Source whole = FeatureSource(frames.values, frames.width);
  Listener stream;
  stream.Start(*engine, model, {});
  HeldStep held;
  step_to_hold = &held;
  fault_hook = [](const char* point) {
    HeldStep* const step =
        point == absl::string_view("engine.step") ? step_to_hold.exchange(nullptr) : nullptr;
    if (step != nullptr) {
      step->begins.Notify();
      step->may_end.WaitForNotification();
    }
    return absl::OkStatus();
  };
  stream.feed().Add(Piece(frames, 0, 1));
  held.begins.WaitForNotification();
  fault_hook = nullptr;
  EXPECT_TRUE(engine->DecodeAndWait(CtcModel(), whole, {}).ok());  // by another thread
  held.may_end.Notify();
  v1::DecodeOptions wide;
  wide.set_beam_size(5);
  absl::Notification answered;
  engine->Decode(model, whole, wide, {}, [&](const absl::StatusOr<v1::Decoded>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    answered.Notify();
  });
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(absl::Minutes(1)));
  stream.feed().Finish();
  EXPECT_TRUE(stream.Wait().ok()) << stream.Wait().status();
  answered.WaitForNotification();
}

TEST(StreamTest, AnEngineThatEndsAnswersThoseThatWait) {
  const auto engine = Started();
  const ModelPtr model = CtcModel();
  const Frames frames = CtcFrames(4, 1);
  Listener waits;
  waits.Start(*engine, model, {});
  Listener may_be_cut;
  v1::DecodeOptions best_so_far;
  best_so_far.set_deadline_result(v1::DEADLINE_RESULT_BEST_SO_FAR);
  may_be_cut.Start(*engine, model, best_so_far);
  may_be_cut.feed().Add(Piece(frames, 0, 4));
  ASSERT_TRUE(engine->DecodeAndWait(model, FeatureSource(frames.values, frames.width), {}).ok());
  engine->End(absl::UnavailableError("enough"));
  EXPECT_THAT(waits.Wait().status().message(), HasSubstr("enough"));
  ASSERT_TRUE(may_be_cut.Wait().ok()) << may_be_cut.Wait().status();
  EXPECT_EQ(may_be_cut.Wait()->hypotheses(0).finish_reason(), v1::FINISH_REASON_SHUTDOWN);
}

TEST(StreamTest, RefusesWhatNeedsTheWholeSource) {
  const auto engine = Started();
  const auto refusal = [&](const ModelPtr& model, const v1::DecodeOptions& options) {
    Listener listener;
    listener.feed().Finish();
    listener.Start(*engine, model, options);
    return std::string(listener.Wait().status().message());
  };
  v1::DecodeOptions full_sum;
  full_sum.set_full_sum(true);
  EXPECT_THAT(refusal(CtcModel(), full_sum), HasSubstr("options.full_sum: needs the whole source"));
  EXPECT_THAT(refusal(Compiled(CtcBundle({})), {}), HasSubstr("model: has an encoder"));
  EXPECT_THAT(refusal(CtcModel(), {}), HasSubstr("source: has no frames"));

  Listener wrong;
  wrong.Start(*engine, CtcModel(), {});
  Frames frames = CtcFrames(3, 1);
  frames.values[7] = 2;
  wrong.feed().Add(Piece(frames, 0, 3));
  wrong.feed().Finish();
  EXPECT_FALSE(wrong.Wait().ok());
}

// What malloc has given out.
int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

TEST(StreamTest, TenThousandIdleStreamsHoldNoMoreThanTheirPrice) {
  if (BEAMWRIGHT_SANITIZED) {
    GTEST_SKIP() << "its allocator has other figures";
  }
  constexpr int kStreams = 10'000;
  const std::vector<Kind> kinds = Kinds();
  for (const Kind& kind : {kinds[0], kinds[1]}) {
    EngineOptions options;
    options.num_threads = 1;
    options.max_queue = kStreams;
    const auto engine = *Engine::Start(options);
    const Frames frames = kind.frames(8, 1);
    std::vector<std::unique_ptr<Listener>> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(std::make_unique<Listener>());
      streams.back()->call.endpoint = {{false, 0, 500}};  // 20 seconds of 40 ms
    }
    const int64_t before = HeapBytes();
    for (const auto& stream : streams) {
      stream->Start(*engine, kind.model, {});
      stream->feed().Add(Piece(frames, 0, frames.count()));
    }
    // Behind them all: their frames were read when it is answered a few times.
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(
          engine->DecodeAndWait(kind.model, FeatureSource(frames.values, frames.width), {}).ok());
    }
    WaitForRunning(*engine, kStreams);
    const int64_t held = HeapBytes() - before;
    const int64_t price = engine->load().bytes;
    EXPECT_LT(held, price) << held / kStreams << " bytes a stream, priced " << price / kStreams;
    RecordProperty(kind.model->name(), absl::StrCat(held / kStreams, " of ", price / kStreams));
    for (const auto& stream : streams) {
      stream->feed().Finish();
    }
    for (const auto& stream : streams) {
      EXPECT_TRUE(stream->Wait().ok());
    }
    WaitForRunning(*engine, 0);
    EXPECT_EQ(engine->load().bytes, 0);
  }
}

// Without frames it holds next to nothing, however wide its beam and long its segment may be.
TEST(StreamTest, AStreamIsPricedByWhatItHolds) {
  const ModelPtr model = CtcModel();
  const auto engine = Started();
  v1::DecodeOptions wide;
  wide.set_beam_size(200);
  Listener listener;
  listener.Start(*engine, model, wide);
  WaitForRunning(*engine, 1);
  const int64_t idle = engine->load().bytes;
  EXPECT_LT(idle, 64 << 10);
  const Frames frames = CtcFrames(2000, 1);
  int64_t before = idle;
  for (int64_t at = 0; at < frames.count(); at += 500) {
    listener.feed().Add(Piece(frames, at, at + 500));
    while (engine->load().bytes < 64 * 200 * (at + 500)) {
      std::this_thread::yield();
    }
    EXPECT_GT(engine->load().bytes, before);
    before = engine->load().bytes;
  }
  EXPECT_LT(before, 2 * 64 * 200 * frames.count());
  listener.feed().Finish();
  EXPECT_TRUE(listener.Wait().ok());
  WaitForRunning(*engine, 0);
  EXPECT_EQ(engine->load().bytes, 0);
}

TEST(StreamTest, AStreamThatCannotGrowEndsWithItsTextSoFar) {
  const ModelPtr model = CtcModel();
  const auto engine = Started(/*max_bytes=*/1 << 20);
  v1::DecodeOptions options;
  options.set_beam_size(5);
  Listener greedy;
  greedy.Start(*engine, model, options);
  const Frames frames = CtcFrames(5000, 1);
  greedy.feed().Add(Piece(frames, 0, frames.count()));
  const absl::Status end = greedy.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("frames of the stream's segment"));
  ASSERT_EQ(greedy.segments.size(), 1U);
  // As much as fits, and no less.
  const int64_t most = (int64_t{1} << 20) / (64 * 5);
  const int64_t heard = std::stoll(greedy.segments[0].substr(2));
  EXPECT_GT(heard, most / 3);
  EXPECT_LT(heard, most);
  // The text is that of a source which ends there.
  const auto roomy = Started();
  Listener whole;
  whole.Start(*roomy, model, options);
  whole.feed().Add(Piece(frames, 0, heard));
  whole.feed().Finish();
  EXPECT_TRUE(whole.Wait().ok());
  EXPECT_EQ(whole.segments, greedy.segments);
  WaitForRunning(*engine, 0);
  EXPECT_EQ(engine->load().bytes, 0);
}

TEST(StreamTest, IdleStreamsOfWideBeamsHoldUpNoCall) {
  const ModelPtr model = CtcModel();
  const auto engine = Started(/*max_bytes=*/8 << 20);
  v1::DecodeOptions wide;
  wide.set_beam_size(256);
  std::vector<std::unique_ptr<Listener>> streams;
  for (int i = 0; i < 1000; ++i) {
    streams.push_back(std::make_unique<Listener>());
    streams.back()->Start(*engine, model, wide);
  }
  const Frames frames = CtcFrames(40, 1);
  CallOptions call;
  call.deadline = SteadyNow() + absl::Minutes(1);
  for (int i = 0; i < 20; ++i) {
    const auto answer =
        engine->DecodeAndWait(model, FeatureSource(frames.values, frames.width), {}, call);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  EXPECT_GT(engine->load().waiting, 500);
  EXPECT_LT(engine->load().bytes, 7 << 20);
  for (const auto& stream : streams) {
    stream->feed().Add(Piece(frames, 0, 1));
    stream->feed().Finish();
  }
  for (const auto& stream : streams) {
    // Those that run first may have to end; all are answered.
    EXPECT_TRUE(stream->Wait().ok() || absl::IsResourceExhausted(stream->Wait().status()))
        << stream->Wait().status();
  }
}

TEST(StreamTest, AStreamOfManySegmentsIsPricedByTheLongest) {
  const ModelPtr model = TransducerModel(Predictor::kLstm);
  const auto engine = Started();
  Listener listener;
  listener.call.endpoint = {{false, 0, 100}};
  listener.Start(*engine, model, {});
  const Frames frames = TransducerFrames(50, 1);
  WaitForRunning(*engine, 1);
  for (int i = 0; i < 100; ++i) {
    listener.feed().Add(Piece(frames, 0, 50));
  }
  EXPECT_EQ(engine->load().running, 1);
  EXPECT_LT(engine->load().bytes, 1 << 20);
  listener.feed().Finish();
  EXPECT_TRUE(listener.Wait().ok());
  EXPECT_EQ(listener.segments.size(), 50);
}

}  // namespace
}  // namespace beamwright::engine
