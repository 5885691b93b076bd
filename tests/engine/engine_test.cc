// The engine against a plain search over the same table, and its behaviour when things go wrong.
#include "include/beamwright/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "engine/model/parts.h"
#include "tests/engine/recurrent_bundle.h"
#include "tests/engine/search/reference_search.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::FirstState;
using engine_testing::kBegin;
using engine_testing::kVocabulary;
using engine_testing::NextState;
using engine_testing::RandomTable;
using engine_testing::TableBundle;
using engine_testing::TableOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const DecodeModel> Compile(bundle::Bundle bundle) {
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

std::unique_ptr<Engine> StartEngine(const EngineOptions& options) {
  auto engine = Engine::Start(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

v1::Source Ids(const std::vector<int32_t>& ids) {
  v1::Source source;
  source.mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  return source;
}

struct Case {
  std::vector<int32_t> source;
  v1::DecodeOptions options;
  search::SearchOptions reference;
};

Case RandomCase(std::mt19937& random, const std::vector<int32_t>& end_tokens) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Case result;
  for (int i = pick(1, 6); i > 0; --i) {
    result.source.push_back(pick(0, 49));
  }
  search::SearchOptions& search = result.reference;
  search.beam_size = pick(1, 9);
  search.n_best = pick(1, search.beam_size);
  search.length_penalty = static_cast<search::LengthPenalty>(pick(0, 2));
  const float alpha = std::uniform_real_distribution<float>(-1, 2)(random);
  search.alpha = alpha;
  search.stop =
      static_cast<search::StopMode>(pick(0, static_cast<int>(search::StopMode::kHeuristic)));
  search.max_length = pick(1, 12);
  search.vocabulary_size = kVocabulary;
  search.begin_token = kBegin;
  search.end_tokens = end_tokens;
  v1::DecodeOptions& options = result.options;
  options.set_beam_size(search.beam_size);
  options.set_n_best(search.n_best);
  options.set_length_penalty(static_cast<v1::LengthPenalty>(
      static_cast<int>(search.length_penalty) + static_cast<int>(v1::LENGTH_PENALTY_NONE)));
  options.set_length_penalty_alpha(alpha);
  options.set_stop(static_cast<v1::StopMode>(static_cast<int>(search.stop) +
                                             static_cast<int>(v1::STOP_MODE_SAFE)));
  options.set_max_length(search.max_length);
  return result;
}

void ExpectEqual(const absl::StatusOr<v1::Decoded>& decoded, const Case& request,
                 const std::vector<float>& table) {
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const search_testing::ReferenceModel model = [&](const std::vector<int32_t>& prefix) {
    int64_t state = NextState(FirstState(request.source), kBegin);
    for (const int32_t token : prefix) {
      state = NextState(state, token);
    }
    const auto line = table.begin() + state * kVocabulary;
    return std::vector<float>(line, line + kVocabulary);
  };
  const search_testing::ReferenceResult expected =
      search_testing::ReferenceSearch(model, request.reference);
  ASSERT_EQ(decoded->hypotheses_size(), static_cast<int>(expected.hypotheses.size()));
  for (int i = 0; i < decoded->hypotheses_size(); ++i) {
    const v1::Hypothesis& got = decoded->hypotheses(i);
    const search_testing::ReferenceHypothesis& want = expected.hypotheses[static_cast<size_t>(i)];
    EXPECT_THAT(got.tokens(), ::testing::ElementsAreArray(want.tokens));
    EXPECT_THAT(got.token_log_probs(), ::testing::ElementsAreArray(want.token_log_probs));
    EXPECT_EQ(got.log_prob(), want.sum);
    EXPECT_EQ(got.score(), want.score);
    EXPECT_EQ(got.finish_reason() == v1::FINISH_REASON_EOS, want.ends);
  }
}

// Hundreds of random requests at once, in an engine that has room for a few of them at a time, so
// that they join and leave at all steps; every answer equals the plain search's, bit for bit.
void RunRandomCases(const TableOptions& table_options, const std::vector<int32_t>& end_tokens,
                    int count, int seed) {
  const std::vector<float> table = RandomTable(seed);
  const auto model = Compile(TableBundle(table, table_options));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->parts().decoder().body->plan().separable, !table_options.mixes_rows)
      << model->parts().decoder().body->plan().reason;
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    cases.push_back(RandomCase(random, end_tokens));
  }
  const auto engine = StartEngine({2, 24, 100000});
  std::vector<absl::StatusOr<v1::Decoded>> answers(cases.size());
  absl::BlockingCounter left(count);
  for (size_t i = 0; i < cases.size(); ++i) {
    engine->Decode(model, Ids(cases[i].source), cases[i].options, {},
                   [&, i](absl::StatusOr<v1::Decoded> decoded) {
                     answers[i] = std::move(decoded);
                     left.DecrementCount();
                   });
  }
  left.Wait();
  for (size_t i = 0; i < cases.size(); ++i) {
    ExpectEqual(answers[i], cases[i], table);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "case " << i;
  }
}

TEST(Engine, EqualsThePlainSearch) { RunRandomCases({}, {1}, 600, 1); }
TEST(Engine, EqualsItForALoopWithLayersAroundIt) {
  TableOptions options;
  options.form = engine_testing::Form::kBatchFirst;
  RunRandomCases(options, {1}, 200, 5);
}
TEST(Engine, EqualsItForATimeFirstExportWithLayeredStates) {
  TableOptions options;
  options.form = engine_testing::Form::kTimeFirst;
  RunRandomCases(options, {1}, 200, 6);
}
TEST(Engine, SeveralEndTokens) { RunRandomCases({{"1", "4", "6"}}, {1, 4, 6}, 300, 2); }
TEST(Engine, EqualsItForVariablesWithABeamIndex) {
  TableOptions options;
  options.form = engine_testing::Form::kVariables;
  RunRandomCases(options, {1}, 200, 8);
}
TEST(Engine, TheBeginTokenMayEndToo) { RunRandomCases({{"0"}}, {0}, 200, 7); }
TEST(Engine, RowsThatCannotBeToldApartRunOneByOne) {
  TableOptions options;
  options.mixes_rows = true;
  RunRandomCases(options, {1}, 100, 3);
}
TEST(Engine, ABatchOfOneIsOpened) {
  TableOptions options;
  options.fixed_batch = true;
  RunRandomCases(options, {1}, 100, 4);
}

class EngineFaults : public ::testing::Test {
 protected:
  absl::Status Error(const v1::Source& source, const v1::DecodeOptions& options = {},
                     const CallOptions& call = {}) {
    return engine_->DecodeAndWait(model_, source, options, call).status();
  }
  void TearDown() override {
    EXPECT_TRUE(engine_->DecodeAndWait(model_, Ids({1, 2}), {}).ok()) << "no longer serves";
    EXPECT_EQ(engine_->load().waiting, 0);
  }

  std::shared_ptr<const DecodeModel> model_ = Compile(TableBundle(RandomTable(5), {}));
  std::unique_ptr<Engine> engine_ = StartEngine({1, 16, 8});
};

TEST_F(EngineFaults, SourcesAreChecked) {
  EXPECT_THAT(Error(v1::Source()).message(), HasSubstr("set text, ids, features"));
  EXPECT_THAT(Error(Ids({})).message(), HasSubstr("source is empty"));
  EXPECT_THAT(Error(Ids({3, 50})).message(), HasSubstr("source.ids[1]: 50 is outside [0, 50)"));
  EXPECT_THAT(Error(Ids({-1})).message(), HasSubstr("source.ids[0]: -1"));
  v1::Source text;
  text.set_text("a");
  EXPECT_EQ(Error(text).code(), absl::StatusCode::kInvalidArgument);
  v1::Source features;
  features.mutable_features()->set_dtype("f32");
  features.mutable_features()->add_shape(3);
  features.mutable_features()->set_data(std::string(12, '\0'));
  EXPECT_THAT(Error(features).message(), HasSubstr("takes ids, not features"));
  features.mutable_features()->set_dtype("f99");
  EXPECT_THAT(Error(features).message(), HasSubstr("source.features.dtype"));
  features.mutable_features()->set_dtype("f64");
  EXPECT_THAT(Error(features).message(), HasSubstr("12 bytes; f64[3] has 24"));
}

TEST_F(EngineFaults, AllWrongOptionsAreNamedAtOnce) {
  v1::DecodeOptions options;
  options.set_beam_size(0);
  options.set_n_best(1000000);
  options.set_length_penalty_alpha(std::numeric_limits<float>::quiet_NaN());
  const absl::Status status = Error(Ids({1}), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("options.beam_size: 0"));
  EXPECT_THAT(status.message(), HasSubstr("options.n_best: 1000000"));
  EXPECT_THAT(status.message(), HasSubstr("options.length_penalty_alpha"));
  options.Clear();
  options.set_beam_size(2);
  options.set_n_best(3);
  EXPECT_THAT(Error(Ids({1}), options).message(), HasSubstr("more than the beam size of 2"));
}

TEST_F(EngineFaults, MoreRowsThanThereAre) {
  v1::DecodeOptions options;
  options.set_beam_size(17);
  const absl::Status status = Error(Ids({1}), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("needs 17 rows; the server has 16"));
}

TEST_F(EngineFaults, CancelledAndLate) {
  CallOptions late;
  late.deadline = absl::InfinitePast();
  EXPECT_EQ(Error(Ids({1}), {}, late).code(), absl::StatusCode::kDeadlineExceeded);
  const auto given_up = std::make_shared<CancelFlag>();
  given_up->Cancel();
  CallOptions cancelled;
  cancelled.cancelled = given_up;
  EXPECT_EQ(Error(Ids({1}), {}, cancelled).code(), absl::StatusCode::kCancelled);
}

// The queue is filled from inside a callback: the engine's thread is busy there, nothing can leave
// the queue.
TEST_F(EngineFaults, AFullQueueRefuses) {
  absl::Notification done;
  int refused = 0;
  int waiting = 0;
  absl::BlockingCounter answered(8);
  engine_->Decode(model_, Ids({1}), {}, {}, [&](absl::StatusOr<v1::Decoded>) {
    for (int i = 0; i < 20; ++i) {
      engine_->Decode(model_, Ids({2}), {}, {}, [&](absl::StatusOr<v1::Decoded> decoded) {
        if (absl::IsResourceExhausted(decoded.status())) {
          ++refused;
        } else {
          answered.DecrementCount();
        }
      });
    }
    waiting = engine_->load().waiting;
    done.Notify();
  });
  done.WaitForNotification();
  answered.Wait();
  EXPECT_EQ(waiting, 8);
  EXPECT_EQ(refused, 12);
}

TEST(EngineDrain, FinishesWhatWasAcceptedAndRefusesTheRest) {
  const auto model = Compile(TableBundle(RandomTable(6), {}));
  const auto engine = StartEngine({2, 8, 1000});
  std::atomic<int> finished{0};
  for (int i = 0; i < 100; ++i) {
    engine->Decode(model, Ids({i % 50}), {}, {},
                   [&](absl::StatusOr<v1::Decoded> decoded) { finished += decoded.ok() ? 1 : 0; });
  }
  engine->Drain();
  EXPECT_EQ(finished, 100);
  EXPECT_EQ(engine->DecodeAndWait(model, Ids({1}), {}).status().code(),
            absl::StatusCode::kUnavailable);
}

// One line of the table is not a number: requests that reach it fail, by name of the step, and no
// others.
TEST(EngineNan, FailsThatRequestOnly) {
  std::vector<float> table = RandomTable(7);
  const int64_t poisoned = NextState(FirstState({10}), kBegin);
  table[static_cast<size_t>(poisoned) * kVocabulary + 2] = std::numeric_limits<float>::quiet_NaN();
  const auto model = Compile(TableBundle(table, {}));
  const auto engine = StartEngine({2, 64, 1000});
  absl::BlockingCounter left(30);
  std::vector<absl::Status> statuses(30);
  v1::DecodeOptions options;
  options.set_max_length(1);
  for (int i = 0; i < 30; ++i) {
    engine->Decode(model, Ids({i}), options, {}, [&, i](absl::StatusOr<v1::Decoded> decoded) {
      statuses[static_cast<size_t>(i)] = decoded.status();
      left.DecrementCount();
    });
  }
  left.Wait();
  for (int i = 0; i < 30; ++i) {
    const absl::Status& status = statuses[static_cast<size_t>(i)];
    if (i == 10) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(status.message(), HasSubstr("step 0"));
    } else {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

TEST(EngineDecoderInputs, StatesGivenByTheRequest) {
  TableOptions options;
  options.with_encoder = false;
  const std::vector<float> table = RandomTable(8);
  const auto model = Compile(TableBundle(table, options));
  const auto engine = StartEngine({1, 64, 1000});
  std::mt19937 random(8);
  Case request = RandomCase(random, {1});
  const int64_t state = FirstState(request.source);
  v1::Source source;
  v1::DecoderInputs& inputs = *source.mutable_decoder_inputs();
  inputs.set_source_length(3);
  v1::Tensor& tensor = (*inputs.mutable_states())["state"];
  tensor.set_dtype("i64");
  tensor.set_data(std::string(reinterpret_cast<const char*>(&state), sizeof(state)));
  ExpectEqual(engine->DecodeAndWait(model, source, request.options), request, table);

  const auto error = [&](const v1::Source& bad) {
    return std::string(engine->DecodeAndWait(model, bad, {}).status().message());
  };
  v1::Source missing;
  missing.mutable_decoder_inputs();
  EXPECT_THAT(error(missing), HasSubstr("states['state'] is missing"));
  v1::Source surplus = source;
  (*surplus.mutable_decoder_inputs()->mutable_memory())["other"] = tensor;
  EXPECT_THAT(error(surplus), HasSubstr("does not take; it takes 'state'"));
  v1::Source shaped = source;
  (*shaped.mutable_decoder_inputs()->mutable_states())["state"].add_shape(1);
  EXPECT_THAT(error(shaped), HasSubstr("i64[1, 1]; the model takes i64[?]"));
  EXPECT_THAT(error(Ids({1})), HasSubstr("no encoder; send decoder_inputs"));
  for (const int length : {-1, std::numeric_limits<int>::min(), 100'001}) {
    v1::Source measured = source;
    measured.mutable_decoder_inputs()->set_source_length(length);
    EXPECT_THAT(error(measured),
                AllOf(HasSubstr(absl::StrCat("source.decoder_inputs.source_length: ", length)),
                      HasSubstr("[1, 100000]")));
  }
  v1::Source unmeasured = source;
  unmeasured.mutable_decoder_inputs()->clear_source_length();
  EXPECT_THAT(error(unmeasured), HasSubstr("source.decoder_inputs.source_length: is not set"));
}

v1::Tensor Floats(const std::vector<int64_t>& shape, float value) {
  v1::Tensor tensor;
  tensor.set_dtype("f32");
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  const std::vector<float> values(static_cast<size_t>(*ops::CheckedNumElements(shape)), value);
  tensor.set_data(std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
  return tensor;
}

// Without encoder: a sum over the memory's positions under a mask, whose gains leave the width
// open.
bundle::Bundle MaskedBundle() {
  TableOptions options;
  options.with_encoder = false;
  bundle::Bundle bundle = TableBundle(RandomTable(8), options);
  bundle.config.mutable_decoder()->set_logits_kind(v1::LOGITS_KIND_LOGITS);
  testing_support::GraphBuilder graph;
  graph.Parameter("token", ops::DType::kI64, {-1});
  const auto state = graph.Parameter("state", ops::DType::kF32, {-1, 4});
  const auto memory = graph.Parameter("memory", ops::DType::kF32, {-1, -1, 4});
  const auto mask = graph.Parameter("mask", ops::DType::kF32, {-1, -1});
  const auto gains = graph.Parameter("gains", ops::DType::kF32, {-1, 1, -1});
  const auto gained = graph.Add("Multiply", {memory, gains});
  const auto masked =
      graph.Add("Multiply", {gained, graph.Add("Unsqueeze", {mask, graph.Ints({2})})});
  const auto sum = graph.Add("ReduceSum", {masked, graph.Ints({1})}, {{"keep_dims", false}});
  const auto next = graph.Add("Tanh", {graph.Add("Add", {state, sum})});
  std::vector<float> weights(4 * kVocabulary);
  std::iota(weights.begin(), weights.end(), -10.0f);
  graph.Result("logits", graph.Add("MatMul", {next, graph.Constant(ops::Tensor::Of<float>(
                                                        {4, kVocabulary}, weights))}));
  graph.Result("next_state", next);
  bundle.decoder = graph.Build();
  return bundle;
}

v1::Source MaskedSource(int64_t length) {
  v1::Source source;
  v1::DecoderInputs& inputs = *source.mutable_decoder_inputs();
  (*inputs.mutable_states())["state"] = Floats({4}, 0);
  (*inputs.mutable_memory())["memory"] = Floats({length, 4}, 0.25f);
  (*inputs.mutable_memory())["mask"] = Floats({length}, 1);
  (*inputs.mutable_memory())["gains"] = Floats({1, 4}, 1);
  return source;
}

// A fault of one source is reported for that source, and the others go on.
TEST(EngineDecoderInputs, AFaultIsItsOwnSourcesAlone) {
  const auto model = Compile(MaskedBundle());
  const auto engine = StartEngine({1, 64, 1000});
  v1::DecodeOptions options;
  options.set_max_length(5000);
  options.set_stop(v1::STOP_MODE_NEVER);
  const int count = 4;
  absl::BlockingCounter left(count);
  std::vector<absl::Status> statuses(count);
  for (int i = 0; i < count; ++i) {
    engine->Decode(model, MaskedSource(3 + i), options, {},
                   [&, i](const absl::StatusOr<v1::Decoded>& decoded) {
                     statuses[static_cast<size_t>(i)] = decoded.status();
                     left.DecrementCount();
                   });
  }
  const auto expect_error = [&](const v1::Source& source, const std::string& what) {
    const absl::Status status = engine->DecodeAndWait(model, source, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  };
  const auto with = [](const char* name, const v1::Tensor& tensor) {
    v1::Source source = MaskedSource(4);
    auto& memory = *source.mutable_decoder_inputs()->mutable_memory();
    auto& states = *source.mutable_decoder_inputs()->mutable_states();
    (states.contains(name) ? states : memory)[name] = tensor;
    return source;
  };
  expect_error(with("mask", Floats({3}, 1)),
               "source.decoder_inputs.memory['mask'] is of a source of 3, ");
  expect_error(with("mask", Floats({0}, 1)), "memory['mask']: source is empty");
  expect_error(with("memory", Floats({4, 4}, std::numeric_limits<float>::infinity())),
               "memory['memory'].data: element 0 is inf; all must be finite");
  expect_error(with("state", Floats({4}, std::nanf(""))),
               "states['state'].data: element 0 is nan; all must be finite");
  expect_error(with("gains", Floats({1, 3}, 1)), "source.decoder_inputs: the decoder fails on");
  left.Wait();
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// What the bundle starts from a constant need not be sent, and may be.
TEST(EngineDecoderInputs, StatesThatStartFromAConstantMayBeLeftOut) {
  const auto engine = StartEngine({1, 64, 1000});
  for (const float constant : {0.0f, 0.75f}) {
    bundle::Bundle bundle = MaskedBundle();
    v1::StateConfig& state = *bundle.config.mutable_decoder()->mutable_states(0);
    state.clear_encoder_output();
    state.set_constant(constant);
    const auto model = Compile(std::move(bundle));
    EXPECT_TRUE(model->Describe().states(0).has_default());
    EXPECT_FALSE(model->Describe().memory(0).has_default());
    v1::DecodeOptions options;
    options.set_max_length(5);
    const auto decode = [&](const v1::Source& source) {
      auto decoded = engine->DecodeAndWait(model, source, options);
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      return decoded.ok() ? decoded->hypotheses(0).SerializeAsString() : "";
    };
    v1::Source sent = MaskedSource(3);
    auto& states = *sent.mutable_decoder_inputs()->mutable_states();
    v1::Source left_out = sent;
    left_out.mutable_decoder_inputs()->clear_states();
    states["state"] = Floats({4}, constant);
    EXPECT_EQ(decode(left_out), decode(sent));
    states["state"] = Floats({4}, constant - 3);
    EXPECT_NE(decode(left_out), decode(sent)) << "what is sent counts";
    left_out.mutable_decoder_inputs()->mutable_memory()->erase("mask");
    EXPECT_THAT(std::string(engine->DecodeAndWait(model, left_out, {}).status().message()),
                HasSubstr("memory['mask'] is missing"));
  }
}

TEST(EngineDecoderInputs, AreRefusedWhereThereIsAnEncoder) {
  const auto model = Compile(TableBundle(RandomTable(8), {}));
  const auto engine = StartEngine({1, 64, 1000});
  EXPECT_EQ(model->Describe().states_size(), 0);
  v1::Source source;
  source.mutable_decoder_inputs()->set_source_length(3);
  v1::Tensor& tensor = (*source.mutable_decoder_inputs()->mutable_states())["state"];
  tensor.set_dtype("i64");
  tensor.set_data(std::string(8, '\0'));
  const absl::Status decoded = engine->DecodeAndWait(model, source, {}).status();
  EXPECT_EQ(decoded.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.message()), HasSubstr("source.decoder_inputs: the model has an"));
}

// A token that the encoder has no embedding of would fail the request that has it.
TEST(EngineSourceTable, TokensBeyondItAreRefused) {
  bundle::Bundle bundle = engine_testing::RecurrentBundle({}).Build();  // a table of 50
  v1::TextConfig& source = *bundle.config.mutable_source();
  source.set_size(51);
  bundle.source = engine_testing::IdCodec(source);
  EXPECT_THAT(std::string(DecodeModel::Compile(bundle).status().message()),
              HasSubstr("there are 51 tokens; the encoder looks 'source' up in a table of 50"));
  source.clear_size();
  bundle.source = engine_testing::IdCodec(source);
  const auto model = Compile(bundle);
  const auto engine = StartEngine({1, 64, 1000});
  EXPECT_TRUE(engine->DecodeAndWait(model, Ids({49}), {}).ok());
  const absl::Status beyond = engine->DecodeAndWait(model, Ids({3, 50}), {}).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("source.ids[1]: 50 is outside [0, 50)"));
}

// An encoder over feature frames that reads lengths or a mask: the first state is the sum of all
// features at real positions, which every kind of length input must leave as it is.
bundle::Bundle FeatureBundle(v1::LengthInput kind, const std::vector<float>& table) {
  bundle::Bundle bundle = TableBundle(table, {});
  testing_support::GraphBuilder graph;
  const auto frames = graph.Parameter("frames", ops::DType::kF32, {-1, -1, 2});
  const bool lengths = kind == v1::LENGTH_INPUT_LENGTHS;
  const auto length =
      graph.Parameter("length", ops::DType::kF32, lengths ? ops::Shape{-1} : ops::Shape{-1, -1});
  const auto by_frame = graph.Add("ReduceSum", {frames, graph.Ints({2})}, {{"keep_dims", false}});
  ops::ValueId sum;
  if (lengths) {  // the mean times the length
    const auto mean = graph.Add("ReduceMean", {by_frame, graph.Ints({1})}, {{"keep_dims", false}});
    sum = graph.Add("Multiply", {mean, length});
  } else {
    const bool additive = kind == v1::LENGTH_INPUT_ADDITIVE_MASK;
    const auto masked = graph.Add(additive ? "Add" : "Multiply", {by_frame, length});
    sum = graph.Add("ReduceSum", {masked, graph.Ints({1})}, {{"keep_dims", false}});
  }
  // Rounded: the mean times the length may miss a whole number by a hair.
  const auto half = graph.Constant(ops::Tensor::Scalar(0.5f));
  const auto whole = graph.Add("Convert", {graph.Add("Floor", {graph.Add("Add", {sum, half})})},
                               {{"destination_type", std::string("i64")}});
  graph.Result("first_state", graph.Add("FloorMod", {whole, graph.Int(engine_testing::kStates)}));
  bundle.encoder = graph.Build();
  bundle.config.mutable_encoder()->set_length_kind(kind);
  bundle.config.mutable_encoder()->set_length_input("length");
  return bundle;
}

TEST(EngineFeatures, WithLengthsAndMasks) {
  const std::vector<float> table = RandomTable(11);
  std::mt19937 random(11);
  for (const v1::LengthInput kind :
       {v1::LENGTH_INPUT_LENGTHS, v1::LENGTH_INPUT_MASK, v1::LENGTH_INPUT_ADDITIVE_MASK}) {
    const auto model = Compile(FeatureBundle(kind, table));
    ASSERT_NE(model, nullptr);
    const auto engine = StartEngine({1, 64, 1000});
    for (int round = 0; round < 20; ++round) {
      const Case request = RandomCase(random, {1});
      std::vector<float> frames;  // [length, 2] whose sum is that of the ids
      for (const int32_t id : request.source) {
        frames.push_back(static_cast<float>(id));
        frames.push_back(0);
      }
      v1::Source source;
      v1::Tensor& tensor = *source.mutable_features();
      tensor.set_dtype("f32");
      tensor.add_shape(static_cast<int64_t>(request.source.size()));
      tensor.add_shape(2);
      tensor.set_data(
          std::string(reinterpret_cast<const char*>(frames.data()), frames.size() * sizeof(float)));
      const auto decoded = engine->DecodeAndWait(model, source, request.options);
      ExpectEqual(decoded, request, table);
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(decoded->source_length(), static_cast<int>(request.source.size()));
    }
    EXPECT_THAT(engine->DecodeAndWait(model, Ids({1}), {}).status().message(),
                HasSubstr("takes features"));
  }
}

// A state that is taken for something else never changes, and answers are wrong without a word.
TEST(DecodeModelErrors, StatesThatDoNotGoOn) {
  const auto error = [](void (*change)(v1::DecoderConfig&)) {
    bundle::Bundle bundle = engine_testing::RecurrentBundle({}).Build();
    change(*bundle.config.mutable_decoder());
    return std::string(DecodeModel::Compile(std::move(bundle)).status().message());
  };
  EXPECT_THAT(error([](v1::DecoderConfig& d) { d.mutable_states(0)->clear_output(); }),
              HasSubstr("decoder.states[0].output: is not set; results are 'logits', 'next_h'"));
  EXPECT_THAT(error([](v1::DecoderConfig& d) { d.mutable_states(0)->set_output("next"); }),
              HasSubstr("decoder.states[0].output: the decoder has no result 'next'; it has "));
  EXPECT_THAT(error([](v1::DecoderConfig& d) { d.mutable_states(1)->set_output("logits"); }),
              AllOf(HasSubstr("decoder.states[1].output: result 'logits' is f32[?, 513]"),
                    HasSubstr("input 'c' is f32[?, 50]")));
  EXPECT_THAT(error([](v1::DecoderConfig& d) { d.mutable_states()->RemoveLast(); }),
              HasSubstr("decoder.states: input 'c' is [?, 50] as is result 'next_c'"));
  EXPECT_THAT(error([](v1::DecoderConfig& d) { d.clear_logits_output(); }),
              HasSubstr("decoder.logits_output: is not set; results are 'logits', 'next_h'"));
  EXPECT_EQ(error([](v1::DecoderConfig& d) { d.add_memory()->set_input("memory"); }), "");
}

// A variable's state goes on as the graph says, whatever else is configured of it.
TEST(EngineStates, OfAVariableMayBeConfiguredWithoutOutput) {
  TableOptions options;
  options.form = engine_testing::Form::kVariables;
  const std::vector<float> table = RandomTable(8);
  bundle::Bundle bundle = TableBundle(table, options);
  bundle.config.mutable_decoder()->clear_memory();
  v1::StateConfig& state = *bundle.config.mutable_decoder()->add_states();
  state.set_input("state");
  state.set_encoder_output("first_state");
  const auto model = Compile(std::move(bundle));
  const auto engine = StartEngine({1, 64, 1000});
  std::mt19937 random(8);
  for (int i = 0; i < 10; ++i) {
    const Case request = RandomCase(random, {1});
    ExpectEqual(engine->DecodeAndWait(model, Ids(request.source), request.options), request, table);
  }
}

TEST(DecodeModelErrors, DefaultsThatNoRequestCanBeDecodedWith) {
  const auto error = [](void (*change)(v1::DecodeOptions&)) {
    bundle::Bundle bundle = TableBundle(RandomTable(9), {});
    change(*bundle.config.mutable_default_options());
    return std::string(DecodeModel::Compile(std::move(bundle)).status().message());
  };
  EXPECT_EQ(error([](v1::DecodeOptions&) {}), "");
  EXPECT_EQ(error([](v1::DecodeOptions& o) { o.set_min_length_factor(1); }), "");
  EXPECT_THAT(error([](v1::DecodeOptions& o) { o.set_top_k(3); }),
              HasSubstr("default_options.top_k"));
  EXPECT_THAT(error([](v1::DecodeOptions& o) { o.set_diverse_groups(9); }),
              HasSubstr("default_options.diverse_groups"));
  EXPECT_THAT(error([](v1::DecodeOptions& o) { o.set_allowed_list("none"); }),
              HasSubstr("default_options.allowed_list: the model has no list 'none'"));
  EXPECT_THAT(error([](v1::DecodeOptions& o) { o.add_fusion()->set_name("none"); }),
              HasSubstr("default_options.fusion[0]"));
  EXPECT_THAT(error([](v1::DecodeOptions& o) { o.set_lexical_shortlist(true); }),
              HasSubstr("default_options.lexical_shortlist: the model has no lexical table"));
  EXPECT_THAT(error([](v1::DecodeOptions& o) {
                o.set_min_length(9);
                o.set_max_length(8);
              }),
              HasSubstr("default_options.min_length: 9 is more than the max_length of 8"));
}

TEST(DecodeModelErrors, NameTheField) {
  const auto error = [](void (*change)(bundle::Bundle&)) {
    bundle::Bundle bundle = TableBundle(RandomTable(9), {});
    change(bundle);
    return std::string(DecodeModel::Compile(std::move(bundle)).status().message());
  };
  EXPECT_THAT(
      error([](bundle::Bundle& b) { b.config.mutable_decoder()->set_logits_output("logit"); }),
      HasSubstr("decoder.logits_output: the decoder has no result 'logit'; it has 'logits'"));
  EXPECT_THAT(error([](bundle::Bundle& b) { b.config.mutable_decoder()->clear_token_input(); }),
              HasSubstr("decoder.token_input"));
  EXPECT_THAT(error([](bundle::Bundle& b) {
                b.config.mutable_decoder()->mutable_states(0)->set_input("stat");
              }),
              HasSubstr("stat"));
  EXPECT_THAT(error([](bundle::Bundle& b) {
                b.config.mutable_decoder()->mutable_states(0)->set_encoder_output("none");
              }),
              HasSubstr("reads encoder output 'none', which the encoder does not have"));
  // All that is wrong between the two graphs at once.
  EXPECT_THAT(error([](bundle::Bundle& b) {
                testing_support::GraphBuilder encoder;
                const auto source = encoder.Parameter("source", ops::DType::kI64, {-1, -1});
                encoder.Result(
                    "first_state",
                    encoder.Add("Convert", {source}, {{"destination_type", std::string("f32")}}));
                b.encoder = encoder.Build();
                b.config.mutable_decoder()->add_memory()->set_input("memory");
              }),
              AllOf(HasSubstr("decoder input 'state' is i64[?], encoder output 'first_state' "
                              "f32[?, ?]; are the two files of one model?"),
                    HasSubstr("decoder.memory: the decoder has no input 'memory'")));
  EXPECT_THAT(error([](bundle::Bundle& b) { b.config.mutable_decoder()->set_loop("loop"); }),
              HasSubstr("the graph has no loop 'loop'"));
  EXPECT_THAT(error([](bundle::Bundle& b) {
                b.config.mutable_encoder()->set_length_kind(v1::LENGTH_INPUT_MASK);
                b.config.mutable_encoder()->set_length_input("mask");
              }),
              HasSubstr("encoder.length_input: the encoder has no input 'mask'"));
  EXPECT_THAT(error([](bundle::Bundle& b) {
                b.config.mutable_encoder()->set_length_kind(v1::LENGTH_INPUT_MASK);
                b.config.mutable_encoder()->set_length_input("source");
                b.config.mutable_encoder()->set_input("source");
              }),
              HasSubstr("encoder.length_input: 'source' is encoder.input, too"));
  EXPECT_THAT(error([](bundle::Bundle& b) { b.config.mutable_encoder()->set_input("words"); }),
              HasSubstr("encoder.input: the encoder has no single input 'words'; it has 'source'"));
}

}  // namespace
}  // namespace beamwright::engine
