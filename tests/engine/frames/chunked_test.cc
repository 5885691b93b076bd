// Encoders that read chunk by chunk: sources and streams are read as by hand, and nothing else that
// is at work changes a bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ops/base/steady_time.h"
#include "tests/engine/frames/chunked_encoder.h"
#include "tests/engine/frames/frame_models.h"
#include "tests/engine/frames/listener.h"

namespace beamwright::engine {
namespace {

using engine_testing::Bits;
using engine_testing::ChunkedCtc;
using engine_testing::ChunkedOptions;
using engine_testing::ChunkedTransducer;
using engine_testing::Compiled;
using engine_testing::CtcBundle;
using engine_testing::EncodeByHand;
using engine_testing::FeatureSource;
using engine_testing::kColumns;
using engine_testing::kWidth;
using engine_testing::Listener;
using engine_testing::ModelPtr;
using engine_testing::RandomFeatures;
using engine_testing::Started;
using engine_testing::TransducerBundle;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Kind {
  ModelPtr model;
  ModelPtr without;  // its encoder
  bool is_ctc = false;
};

std::vector<Kind> Kinds(const ChunkedOptions& options) {
  engine_testing::CtcOptions ctc;
  ctc.has_encoder = false;
  engine_testing::TransducerOptions transducer;
  transducer.has_encoder = false;
  transducer.predictor = engine_testing::Predictor::kStateless;
  return {{Compiled(ChunkedCtc(options)), Compiled(CtcBundle(ctc)), true},
          {Compiled(ChunkedTransducer(options)), Compiled(TransducerBundle(transducer)), false}};
}

std::vector<ChunkedOptions> AllOptions() {
  ChunkedOptions plain;
  ChunkedOptions turned = plain;
  turned.width_first = true;
  turned.tail = 3;
  ChunkedOptions for_one = plain;
  for_one.is_for_one = true;
  ChunkedOptions mixed = plain;
  mixed.mixes_rows = true;
  mixed.silence = 0.25F;
  return {plain, turned, for_one, mixed};
}

v1::DecodeOptions Beam(int size) {
  v1::DecodeOptions options;
  options.set_beam_size(size);
  options.set_n_best(size);
  return options;
}

// Frames that were computed by hand, for the model without its encoder.
v1::Source HandSource(const Kind& kind, const std::vector<float>& features,
                      const ChunkedOptions& options) {
  std::vector<float> frames = EncodeByHand(features, options);
  if (kind.is_ctc) {
    const std::vector<double> log_probs = engine_testing::CtcLogProbs(frames);
    frames.assign(log_probs.begin(), log_probs.end());
  }
  return FeatureSource(frames, kind.is_ctc ? kColumns : kWidth);
}

v1::Decoded ByHand(Engine& engine, const Kind& kind, const std::vector<float>& features,
                   const ChunkedOptions& options) {
  const auto decoded =
      engine.DecodeAndWait(kind.without, HandSource(kind, features, options), Beam(3));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? *decoded : v1::Decoded();
}

void ExpectNear(const v1::Decoded& decoded, const v1::Decoded& expected, const std::string& what) {
  ASSERT_EQ(decoded.hypotheses_size(), expected.hypotheses_size()) << what;
  for (int i = 0; i < decoded.hypotheses_size(); ++i) {
    const v1::Hypothesis& one = decoded.hypotheses(i);
    const v1::Hypothesis& other = expected.hypotheses(i);
    EXPECT_EQ(std::vector<int32_t>(one.tokens().begin(), one.tokens().end()),
              std::vector<int32_t>(other.tokens().begin(), other.tokens().end()))
        << what << ", " << i;
    EXPECT_NEAR(one.score(), other.score(), 1e-4) << what << ", " << i;
  }
}

TEST(ChunkedTest, ASourceIsReadChunkByChunkAsByHand) {
  const auto engine = Started();
  for (const ChunkedOptions& options : AllOptions()) {
    for (const Kind& kind : Kinds(options)) {
      ASSERT_NE(kind.model, nullptr);
      EXPECT_EQ(kind.model->encodes_together(), !options.mixes_rows) << kind.model->encodes_apart();
      for (int count = 1; count <= 22; ++count) {
        const std::vector<float> features =
            RandomFeatures(count, static_cast<uint32_t>(100 + count));
        const auto decoded =
            engine->DecodeAndWait(kind.model, FeatureSource(features, kWidth), Beam(3));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        ExpectNear(*decoded, ByHand(*engine, kind, features, options),
                   absl::StrCat(kind.model->name(), ", ", count, " frames"));
      }
    }
  }
}

std::vector<float> FeaturesOf(uint32_t number) {
  return RandomFeatures(1 + static_cast<int>(number % 37), number);
}

void SendSome(const std::vector<float>& features, size_t begin, size_t end, FrameFeed& feed) {
  feed.Add(ops::Tensor::Of<float>(
      {1, static_cast<int64_t>(end - begin), kWidth},
      std::vector<float>(features.begin() + static_cast<std::ptrdiff_t>(begin * kWidth),
                         features.begin() + static_cast<std::ptrdiff_t>(end * kWidth))));
}

TEST(ChunkedTest, AStreamSaysWhatDecodeSaysHoweverItIsCutAndWhoeverIsBesideIt) {
  constexpr uint32_t kStreams = 120;
  std::mt19937 random(27);
  for (const ChunkedOptions& options : AllOptions()) {
    for (const Kind& kind : Kinds(options)) {
      ASSERT_NE(kind.model, nullptr);
      const auto alone = Started();
      EngineOptions many;
      many.num_threads = 2;
      many.num_streams = 1 + static_cast<int>(random() % 2);
      const auto engine = *Engine::Start(many);
      std::vector<std::unique_ptr<Listener>> streams;
      std::vector<size_t> sent(kStreams, 0);
      for (uint32_t i = 0; i < kStreams; ++i) {
        streams.push_back(std::make_unique<Listener>());
        streams.back()->Start(*engine, kind.model, Beam(1 + static_cast<int>(i % 4)));
      }
      for (uint32_t open = kStreams; open > 0;) {
        const uint32_t i = static_cast<uint32_t>(random()) % kStreams;
        const std::vector<float> features = FeaturesOf(i);
        const size_t count = features.size() / kWidth;
        if (sent[i] > count) {
          continue;
        }
        if (sent[i] == count) {
          streams[i]->feed().Finish();
          sent[i] = count + 1;
          --open;
          continue;
        }
        const size_t end = std::min<size_t>(count, sent[i] + 1 + random() % 7);
        SendSome(features, sent[i], end, streams[i]->feed());
        sent[i] = end;
      }
      for (uint32_t i = 0; i < kStreams; ++i) {
        ASSERT_TRUE(streams[i]->Wait().ok()) << streams[i]->Wait().status();
        const auto decoded = alone->DecodeAndWait(kind.model, FeatureSource(FeaturesOf(i), kWidth),
                                                  Beam(1 + static_cast<int>(i % 4)));
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(Bits(*streams[i]->Wait()), Bits(*decoded)) << i;
        EXPECT_FALSE(streams[i]->was_contradicted) << i;
      }
    }
  }
}

TEST(ChunkedTest, BitsDoNotDependOnNeighboursAndThreads) {
  for (const Kind& kind : Kinds({})) {
    engine_testing::NumberedRequests requests;
    requests.count = 150;
    requests.source = [](int i) {
      return FeatureSource(FeaturesOf(static_cast<uint32_t>(i)), kWidth);
    };
    requests.options = [](int i) {
      v1::DecodeOptions options = Beam(1 + i % 4);
      options.set_full_sum(i % 5 == 0);
      return options;
    };
    engine_testing::ExpectSameBits(kind.model, requests, {{1, 1}, {2, 1}, {2, 2}});
  }
}

TEST(ChunkedTest, SegmentsOfAStreamEndByRulesAndDoNotDependOnTheCuts) {
  for (const Kind& kind : Kinds({})) {
    const auto engine = Started();
    const std::vector<float> features = RandomFeatures(61, 5);
    std::vector<std::vector<std::string>> segments;
    for (const size_t piece : {1, 4, 61}) {
      Listener heard;
      heard.call.endpoint = {{false, 0, 7}};
      heard.Start(*engine, kind.model, Beam(2));
      for (size_t at = 0; at < 61; at += piece) {
        SendSome(features, at, std::min<size_t>(at + piece, 61), heard.feed());
      }
      heard.feed().Finish();
      ASSERT_TRUE(heard.Wait().ok()) << heard.Wait().status();
      segments.push_back(heard.segments);
    }
    EXPECT_EQ(segments[0].size(), 5);  // 16 chunks give 32 frames
    EXPECT_EQ(segments[1], segments[0]);
    EXPECT_EQ(segments[2], segments[0]);
  }
}

TEST(ChunkedTest, TargetsAreScoredOverAllChunks) {
  for (const Kind& kind : Kinds({})) {
    const auto engine = Started();
    const std::vector<float> features = RandomFeatures(17, 8);
    const auto decoded =
        engine->DecodeAndWait(kind.model, FeatureSource(features, kWidth), Beam(4));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    v1::ScoreSource source;
    *source.mutable_source() = FeatureSource(features, kWidth);
    v1::ScoreSource by_hand;
    *by_hand.mutable_source() = HandSource(kind, features, {});
    for (const v1::Hypothesis& hypothesis : decoded->hypotheses()) {
      *source.add_targets()->mutable_ids()->mutable_ids() = hypothesis.tokens();
    }
    *by_hand.mutable_targets() = source.targets();
    const auto scored = engine->ScoreAndWait(kind.model, source, {});
    ASSERT_TRUE(scored.ok()) << scored.status();
    const auto expected = engine->ScoreAndWait(kind.without, by_hand, {});
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_EQ(scored->targets_size(), decoded->hypotheses_size());
    for (int i = 0; i < scored->targets_size(); ++i) {
      EXPECT_NEAR(scored->targets(i).hypothesis().log_prob(),
                  expected->targets(i).hypothesis().log_prob(), 1e-4)
          << i;
    }
  }
}

TEST(ChunkedTest, AStreamIsPricedWithItsStates) {
  // cache 2 * 3 floats, h 3, a count of 8 bytes. While it runs: twice, and 9 frames of 3 floats.
  constexpr int64_t kStates = 9 * 4 + 8;
  constexpr int64_t kRunning = 2 * kStates + 9 * 3 * 4;
  const std::vector<Kind> kinds = Kinds({});
  for (const Kind& kind : kinds) {
    const auto price = [](const ModelPtr& model) {
      const auto engine = Started();
      Listener listener;
      listener.call.endpoint = {{false, 0, 100}};
      listener.Start(*engine, model, Beam(2));
      while (engine->load().running != 1) {
        std::this_thread::yield();
      }
      const int64_t bytes = engine->load().bytes;
      listener.feed().Finish();
      EXPECT_THAT(std::string(listener.Wait().status().message()), HasSubstr("has no frames"));
      return bytes;
    };
    const int64_t waiting = price(kind.model);
    EXPECT_EQ(waiting - price(kind.without), kStates);
    const auto engine = Started();
    Listener speaks;
    speaks.Start(*engine, kind.model, Beam(2));
    speaks.feed().Add(ops::Tensor::Of<float>({1, 9, kWidth}, RandomFeatures(9, 1)));
    while (engine->load().bytes < waiting - kStates + kRunning) {
      std::this_thread::yield();
    }
    speaks.feed().Finish();
    EXPECT_TRUE(speaks.Wait().ok()) << speaks.Wait().status();
    const v1::StreamingDescription told = kind.model->Describe().streaming();
    EXPECT_EQ(told.state_bytes(), 9 * 4 + 8);
    EXPECT_EQ(told.chunk(), 5);
    EXPECT_EQ(told.shift(), 4);
    EXPECT_EQ(told.frames(), 2);
    EXPECT_EQ(told.look_ahead(), 1);
    EXPECT_EQ(told.chunk_ms(), 0);
  }
}

TEST(ChunkedTest, LatencyIsToldWhereAFrameStandsForTime) {
  bundle::Bundle bundle = ChunkedCtc({});
  bundle.config.set_frame_ms(20);
  const ModelPtr model = Compiled(std::move(bundle));
  ASSERT_NE(model, nullptr);
  const v1::StreamingDescription told = model->Describe().streaming();
  EXPECT_EQ(told.chunk_ms(), 50);
  EXPECT_EQ(told.shift_ms(), 40);
  EXPECT_EQ(told.look_ahead_ms(), 10);
}

TEST(ChunkedTest, OneOfManyThatWaitEndsAtItsDeadlineAndOthersGoOn) {
  const auto engine = Started();
  const ModelPtr model = Kinds({})[1].model;
  const std::vector<float> features = RandomFeatures(20, 5);
  Listener late;
  late.call.deadline = SteadyNow() + absl::Milliseconds(30);
  late.Start(*engine, model, {});
  SendSome(features, 0, 20, late.feed());
  Listener other;
  other.Start(*engine, model, {});
  SendSome(features, 0, 20, other.feed());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Wait().status())) << late.Wait().status();
  other.feed().Finish();
  EXPECT_TRUE(other.Wait().ok()) << other.Wait().status();
}

// Runs of the encoder as E, steps as S.
class Order : public EngineObserver {
 public:
  void OnEncode(const DecodeModel&, int, int64_t, absl::Duration) override { all += 'E'; }
  void OnStep(const DecodeModel&, const StepFacts&) override { all += 'S'; }
  std::string all;  // to be read when the engine is gone
};

TEST(ChunkedTest, TheEncoderWaitsUntilItsFramesAreSearched) {
  Order order;
  EngineOptions options;
  options.observer = &order;
  auto engine = *Engine::Start(options);
  const ModelPtr model = Kinds({})[1].model;  // a frame a step; a chunk has two
  Listener stream;
  stream.Start(*engine, model, {});
  SendSome(RandomFeatures(20, 5), 0, 20, stream.feed());
  stream.feed().Finish();
  ASSERT_TRUE(stream.Wait().ok()) << stream.Wait().status();
  engine.reset();
  EXPECT_THAT(order.all, ::testing::MatchesRegex("S*E(SS+E)+SS+"));
}

// Bundles that do not fit, and what is said of them.
struct Misfit {
  const char* name;
  void (*change)(v1::EncoderConfig& config);
  const char* says;
};

const Misfit kMisfits[] = {
    {"chunk", [](v1::EncoderConfig& config) { config.mutable_streaming()->set_chunk(4); },
     "it fails on random chunks"},
    {"state is missing",
     [](v1::EncoderConfig& config) {
       config.set_input("features");
       config.mutable_streaming()->mutable_states()->RemoveLast();
     },
     "encoder.streaming.states: 'read' is read by the encoder, and nothing says what fills it"},
    {"no such input",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->set_input("cash");
     },
     "encoder.input: is not set, and there are several; it has 'features', 'cache'"},
    {"no such input, and one of the source",
     [](v1::EncoderConfig& config) {
       config.set_input("features");
       config.mutable_streaming()->mutable_states(0)->set_input("cash");
     },
     "encoder.streaming.states: 'cache' is read by the encoder"},
    {"no such result",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->set_output("new_cache");
     },
     "encoder.streaming.states[0].output: the encoder has no result 'new_cache'; it has "
     "'next_cache'"},
    {"another's result",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->set_output("next_h");
       config.mutable_streaming()->mutable_states(1)->set_output("next_cache");
     },
     "the encoder read state 'cache' as f32[1, 2, 3] and wrote it as f32[1, 1, 3], rows first"},
    {"of another type",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->set_output("next_read");
       config.mutable_streaming()->mutable_states(2)->set_output("next_cache");
     },
     "a state keeps its type and shape"},
    {"shape",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->add_shape(1);
       config.mutable_streaming()->mutable_states(0)->add_shape(7);
       config.mutable_streaming()->mutable_states(0)->add_shape(3);
     },
     "encoder.streaming.states[0].shape: [1, 7, 3]; 'cache' is [?, 2, 3]"},
    {"rank",
     [](v1::EncoderConfig& config) { config.mutable_streaming()->mutable_states(0)->add_shape(1); },
     "encoder.streaming.states[0].shape: [1] has 1 axes; 'cache' is [?, 2, 3]"},
    {"rows axis",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(2)->set_rows_axis(1);
     },
     "encoder.streaming.states[2].rows_axis: 1 is not an axis of 'read' [?]"},
    {"wrong rows axis",
     [](v1::EncoderConfig& config) {
       config.mutable_streaming()->mutable_states(0)->set_rows_axis(1);
     },
     "encoder.streaming.states[0].shape: must state extent 0 of 'cache' [?, 2, 3]"},
    {"input is a state", [](v1::EncoderConfig& config) { config.set_input("cache"); },
     "encoder.streaming"},
    {"length axis", [](v1::EncoderConfig& config) { config.set_length_axis(2); },
     "the encoder reads 'features' f32[?, ?, 3]"},
};

TEST(ChunkedTest, WhatDoesNotFitIsRefusedAtLoad) {
  for (const Misfit& misfit : kMisfits) {
    bundle::Bundle bundle = ChunkedTransducer({});
    misfit.change(*bundle.config.mutable_encoder());
    const auto model = DecodeModel::Compile(std::move(bundle));
    ASSERT_FALSE(model.ok()) << misfit.name;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(misfit.says)) << misfit.name;
  }
}

TEST(ChunkedTest, FramesMustHaveThreeAxesAndBeThere) {
  for (const bool has_none : {false, true}) {
    bundle::Bundle bundle = ChunkedTransducer({});
    engine_testing::GraphBuilder encoder;
    const auto frames = engine_testing::AddChunkedEncoder(encoder, {});
    encoder.Result("frames", has_none
                                 ? encoder.Add("Gather", {frames,
                                                          encoder.Constant(ops::Tensor::Of<int64_t>(
                                                              {0}, std::vector<int64_t>{})),
                                                          encoder.Int(1)})
                                 : encoder.Add("Gather", {frames, encoder.Int(0), encoder.Int(1)}));
    bundle.encoder = encoder.Build();
    const auto model = DecodeModel::Compile(std::move(bundle));
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(
        std::string(model.status().message()),
        HasSubstr(has_none ? "no frame comes of a chunk of 5" : "transducer.encoder_output"));
  }
}

TEST(ChunkedTest, RefusesFeaturesOfAnotherWidthAndTooShortSources) {
  const auto engine = Started();
  const ModelPtr model = Kinds({})[0].model;
  const auto wide = engine->DecodeAndWait(model, FeatureSource({1, 2, 3, 4}, 4), {});
  EXPECT_THAT(std::string(wide.status().message()),
              HasSubstr("source.features.shape: [1, 4]; the encoder takes f32 [frames, 3]"));
  const auto empty = engine->DecodeAndWait(model, FeatureSource({}, 3), {});
  EXPECT_FALSE(empty.ok());
}

}  // namespace
}  // namespace beamwright::engine
