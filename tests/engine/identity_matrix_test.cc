// Promise 1 in every cell: an answer's bits are the same in each precision for one thread and two,
// alone, with three neighbours and in a full batch, while requests join and leave, for vocabularies
// around the borders of panels, with each instruction set.
#include <gtest/gtest.h>

#include <optional>

#include "absl/synchronization/blocking_counter.h"
#include "engine/model/parts.h"
#include "include/beamwright/engine.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/panel_scan.h"
#include "tests/engine/recurrent_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::Ending;
using engine_testing::RecurrentBundle;
using engine_testing::RecurrentOptions;

struct Request {
  v1::Source source;
  v1::DecodeOptions options;
};

// Requests of all kinds of rules: none, edits, whole rows, draws.
std::vector<Request> Requests() {
  std::mt19937 random(23);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<Request> requests(20);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int length = pick(1, 6); length > 0; --length) {
      requests[i].source.mutable_ids()->add_ids(pick(0, 49));
    }
    v1::DecodeOptions& options = requests[i].options;
    options.set_beam_size(pick(1, 5));
    options.set_n_best(options.beam_size());
    options.set_max_length(pick(1, 7));
    switch (i % 5) {
      case 1:
        options.set_repetition_penalty(1.3f);
        break;
      case 2:
        options.set_temperature(0.8f);
        break;
      case 3:
        options.set_top_tokens(3);
        options.set_min_length(2);
        break;
      case 4:
        options.set_sampling(v1::SAMPLING_WITHOUT_REPLACEMENT);
        options.set_seed(pick(0, 100));
        break;
      default:
        break;
    }
  }
  return requests;
}

using Answers = std::vector<std::string>;

// All of an answer but how long it took.
std::string Bits(const v1::Decoded& decoded) {
  std::string bits;
  for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
    bits += hypothesis.SerializeAsString();
  }
  return bits;
}

// Answers of an engine that gets `wave` requests at once, and the next ones when they are answered.
Answers Decode(const std::shared_ptr<const DecodeModel>& model,
               const std::vector<Request>& requests, int threads, int max_rows, size_t wave,
               int streams = 1) {
  EngineOptions options;
  options.num_threads = threads;
  options.num_streams = streams;
  options.max_rows = max_rows;
  const auto engine = *Engine::Start(options);
  Answers answers(requests.size());
  for (size_t first = 0; first < requests.size(); first += wave) {
    const size_t end = std::min(first + wave, requests.size());
    absl::BlockingCounter left(static_cast<int>(end - first));
    for (size_t i = first; i < end; ++i) {
      engine->Decode(model, requests[i].source, requests[i].options, {},
                     [&answers, &left, i](absl::StatusOr<v1::Decoded> decoded) {
                       EXPECT_TRUE(decoded.ok()) << decoded.status();
                       answers[i] = decoded.ok() ? Bits(*decoded) : "";
                       left.DecrementCount();
                     });
    }
    left.Wait();
  }
  return answers;
}

std::shared_ptr<const DecodeModel> Compile(const RecurrentOptions& options,
                                           v1::Precision precision) {
  bundle::Bundle bundle = RecurrentBundle(options).Build();
  auto model = DecodeModel::Compile(std::move(bundle), {precision});
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->parts().decoder().body->plan().separable)
      << (*model)->parts().decoder().body->plan().reason;
  return *std::move(model);
}

struct Batch {
  const char* name;
  int max_rows;  // 7: as many join as have left
  size_t wave;
};
constexpr Batch kBatches[] = {{"with three neighbours", 1024, 4},
                              {"in a full batch", 1024, 20},
                              {"joining and leaving", 7, 20}};

// The last one: streams as work is.
constexpr std::pair<int, int> kTeams[] = {{1, 1}, {2, 1}, {2, EngineOptions::kStreamsAsWorkIs}};

class IdentityMatrix : public ::testing::TestWithParam<v1::Precision> {};

TEST_P(IdentityMatrix, AnswersDependOnTheRequestAlone) {
  const std::vector<Request> requests = Requests();
  for (const int64_t vocabulary :
       {ops::kScanPanel - 1, ops::kScanPanel, ops::kScanPanel + 1, 2 * ops::kScanPanel + 33}) {
    RecurrentOptions options;
    options.vocabulary = vocabulary;
    const auto model = Compile(options, GetParam());
    ASSERT_NE(model->parts().decoder().projection, nullptr);
    Answers alone;
    {
      const ScopedVectorIsa plain(VectorIsa::kPlain);
      alone = Decode(model, requests, 1, 1024, 1);
    }
    for (const VectorIsa isa :
         {VectorIsa::kPlain, VectorIsa::kAvx2, VectorIsa::kAvx512, VectorIsa::kAmx}) {
      const ScopedVectorIsa scope(isa);
      if (CurrentVectorIsa() != isa) {
        continue;  // not on this machine
      }
      for (const Batch& batch : kBatches) {
        for (const auto& [threads, streams] : kTeams) {
          const Answers answers =
              Decode(model, requests, threads, batch.max_rows, batch.wave, streams);
          for (size_t i = 0; i < requests.size(); ++i) {
            ASSERT_TRUE(answers[i] == alone[i])
                << "request " << i << " " << batch.name << ", " << threads << " threads in "
                << streams << " streams, vocabulary " << vocabulary << ", instruction set "
                << static_cast<int>(isa);
          }
        }
      }
    }
  }
}

// A step that scores and scans panel by panel finds what a scan of whole rows finds.
TEST_P(IdentityMatrix, PanelsGiveTheBitsOfWholeRows) {
  RecurrentOptions options;
  options.vocabulary = 2 * ops::kScanPanel + 33;
  for (const bool has_bias : {false, true}) {
    options.has_bias = has_bias;
    const auto split = Compile(options, GetParam());
    ASSERT_NE(split->parts().decoder().projection, nullptr);
    // What reads the scores as well keeps the projection where it is.
    bundle::Bundle bundle = RecurrentBundle(options).Build();
    const ops::ValueId scores = bundle.decoder.node(bundle.decoder.results[0]).inputs[0];
    testing_support::GraphBuilder graph(std::move(bundle.decoder));
    graph.Result("again", graph.Add("Tanh", {scores}));
    bundle.decoder = graph.Build();
    const auto whole = DecodeModel::Compile(std::move(bundle), {GetParam()});
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_EQ((*whole)->parts().decoder().projection, nullptr);
    EXPECT_TRUE(Decode(split, Requests(), 2, 1024, 20) == Decode(*whole, Requests(), 2, 1024, 20));
  }
}

// Columns of logits without a token: cut off with the projection, banned where it stays.
TEST_P(IdentityMatrix, PaddingOfLogitsHasNoShare) {
  RecurrentOptions options;
  options.vocabulary = 1032;
  constexpr int kTokens = 1000;
  Answers answers[2];
  for (const bool stays : {false, true}) {
    bundle::Bundle bundle = RecurrentBundle(options).Build();
    bundle.config.mutable_target()->set_size(kTokens);
    bundle.target = engine_testing::IdCodec(bundle.config.target());
    if (stays) {
      const ops::ValueId scores = bundle.decoder.node(bundle.decoder.results[0]).inputs[0];
      testing_support::GraphBuilder graph(std::move(bundle.decoder));
      graph.Result("again", graph.Add("Tanh", {scores}));
      bundle.decoder = graph.Build();
    }
    const auto model = DecodeModel::Compile(std::move(bundle), {GetParam()});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->parts().decoder().projection == nullptr, stays);
    EXPECT_EQ((*model)->target_vocabulary_size(), stays ? 1032 : kTokens);
    answers[stays ? 1 : 0] = Decode(*model, Requests(), 2, 1024, 20);
  }
  EXPECT_TRUE(answers[0] == answers[1]);
}

INSTANTIATE_TEST_SUITE_P(Precisions, IdentityMatrix,
                         ::testing::Values(v1::PRECISION_F32, v1::PRECISION_BF16,
                                           v1::PRECISION_BF16_DOT, v1::PRECISION_BF16_AMX,
                                           v1::PRECISION_INT8),
                         [](const auto& tested) { return v1::Precision_Name(tested.param); });

// Softmax and log-softmax at the end leave the graph with the projection: the scan does their work,
// and the answers are those of the logits. What else stands there stays.
TEST(SplitProjection, TakesSoftmaxAlong) {
  const std::vector<Request> requests = Requests();
  const auto logits = Compile(RecurrentOptions(), v1::PRECISION_F32);
  const Answers expected = Decode(logits, requests, 1, 1024, 20);
  for (const Ending ending : {Ending::kLogSoftmax, Ending::kSoftmax}) {
    RecurrentOptions options;
    options.ending = ending;
    const auto model = Compile(options, v1::PRECISION_F32);
    EXPECT_NE(model->parts().decoder().projection, nullptr);
    EXPECT_EQ(model->parts().decoder().logits_kind, ops::ScoreKind::kLogits);
    EXPECT_TRUE(Decode(model, requests, 1, 1024, 20) == expected);
  }
  RecurrentOptions other;
  other.ending = Ending::kTanh;
  EXPECT_EQ(Compile(other, v1::PRECISION_F32)->parts().decoder().projection, nullptr);
}

TEST(Precision, IsTheBundlesUnlessTheCallerSaysOtherwise) {
  bundle::Bundle bundle = RecurrentBundle(RecurrentOptions()).Build();
  const auto numerics = [&](std::optional<v1::Precision> precision) {
    const auto model = DecodeModel::Compile(bundle, {precision});
    return model.ok() ? (*model)->numerics() : std::string(model.status().message());
  };
  EXPECT_TRUE(numerics({}).starts_with("f32;")) << numerics({});
  EXPECT_TRUE(numerics(v1::PRECISION_INT8).starts_with("int8;"));
  bundle.config.set_precision(v1::PRECISION_BF16);
  EXPECT_TRUE(numerics({}).starts_with("bf16;"));
  EXPECT_TRUE(numerics(v1::PRECISION_F32).starts_with("f32;"));
  EXPECT_TRUE(numerics(v1::PRECISION_BF16_DOT).starts_with("bf16-dot;"));
  EXPECT_TRUE(numerics(v1::PRECISION_BF16_AMX).starts_with("bf16-amx;"));
  EXPECT_TRUE(numerics(v1::PRECISION_INT8_CORE).starts_with("int8-core;"));
  bundle.config.set_precision(static_cast<v1::Precision>(9));
  EXPECT_EQ(numerics({}), "precision: 9 is not known");
}

}  // namespace
}  // namespace beamwright::engine
