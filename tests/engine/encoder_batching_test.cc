// Promise 1 for encoders: whatever a source is encoded with, its answer has the bits that it has
// alone. Encoders that couple the sources of a batch must be found out, whatever they do it by;
// usual ones must be proven, and be run over several sources at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "include/beamwright/engine.h"
#include "tests/engine/gathered_decode.h"
#include "tests/engine/table_bundle.h"
#include "tests/engine/trial_encoders.h"

namespace beamwright::engine {
namespace {

using engine_testing::TrialEncoder;
using ::testing::HasSubstr;

constexpr int kTrialLength = 5;
constexpr size_t kPairs = 300;

// The scores are the encoder's output, so that every bit of it counts.
ops::Graph ScoresOfState() {
  testing_support::GraphBuilder graph;
  const auto token = graph.Parameter("token", ops::DType::kI64, {-1});
  const auto h = graph.Parameter("h", ops::DType::kF32, {-1, engine_testing::kVocabulary});
  const auto scaled = graph.Add("Convert", {token}, {{"destination_type", std::string("f32")}});
  const auto zero = graph.Add("Multiply", {scaled, graph.Constant(ops::Tensor::Scalar(0.0f))});
  const auto next = graph.Add("Add", {h, graph.Add("Unsqueeze", {zero, graph.Ints({1})})});
  graph.Result("logits", graph.Add("Negative", {next}));
  graph.Result("next_h", next);
  return graph.Build();
}

bundle::Bundle TrialBundle(const TrialEncoder& encoder) {
  bundle::Bundle bundle = engine_testing::TableBundle(engine_testing::RandomTable(1), {});
  v1::DecoderConfig& decoder = *bundle.config.mutable_decoder();
  decoder.set_logits_kind(v1::LOGITS_KIND_LOGITS);
  v1::StateConfig& state = *decoder.mutable_states(0);
  state.set_input("h");
  state.set_output("next_h");
  state.set_encoder_output("first_h");
  if (encoder.length_kind != v1::LENGTH_INPUT_NONE) {
    bundle.config.mutable_encoder()->set_length_input("lengths");
    bundle.config.mutable_encoder()->set_length_kind(encoder.length_kind);
  }
  bundle.encoder = engine_testing::BuildEncoder(encoder, engine_testing::kVocabulary);
  bundle.decoder = ScoresOfState();
  return bundle;
}

std::shared_ptr<const DecodeModel> CompileTrial(const TrialEncoder& encoder) {
  auto model = DecodeModel::Compile(TrialBundle(encoder));
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

std::vector<std::vector<int32_t>> TrialSources() {
  std::mt19937 random(77);
  std::vector<std::vector<int32_t>> sources(2 * kPairs, std::vector<int32_t>(kTrialLength));
  for (auto& source : sources) {
    for (int32_t& id : source) {
      id = static_cast<int32_t>(random() % engine_testing::kSourceIds);
    }
  }
  return sources;
}

struct TrialAnswers {
  std::vector<std::string> bits;
  int most_together = 0;
  int num_failed = 0;
};

// Sources that wait together are encoded two at a time, if at all; else each comes alone.
TrialAnswers DecodeTrial(const std::shared_ptr<const DecodeModel>& model,
                         const std::vector<std::vector<int32_t>>& ids, bool in_pairs) {
  EngineOptions engine_options;
  engine_options.num_threads = 1;
  engine_options.max_encode_positions = 2 * kTrialLength;
  v1::DecodeOptions options;
  options.set_beam_size(3);
  options.set_n_best(3);
  options.set_max_length(1);
  std::vector<v1::Source> sources(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    sources[i].mutable_ids()->mutable_ids()->Add(ids[i].begin(), ids[i].end());
  }
  engine_testing::GatheredAnswers answers =
      engine_testing::DecodeGathered(model, sources, options, engine_options, in_pairs);
  int most_together = 0;
  for (const int num_sources : answers.groups) {
    most_together = std::max(most_together, num_sources);
  }
  return {std::move(answers.bits), most_together, answers.num_failed};
}

size_t NumDifferent(const TrialAnswers& a, const TrialAnswers& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.bits.size(); ++i) {
    count += a.bits[i] != b.bits[i] ? 1 : 0;
  }
  return count;
}

// Of the sources those that the encoder gives other bits for with their neighbour than alone.
size_t NumCoupled(const DecodeModel& model, const std::vector<std::vector<int32_t>>& sources) {
  const DecodeModel::Parts& parts = model.parts();
  const auto run = [&](absl::Span<const std::vector<int32_t>> rows) {
    ops::Tensor ids(ops::DType::kI64, {static_cast<int64_t>(rows.size()), kTrialLength});
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy(rows[i].begin(), rows[i].end(), ids.mutable_data<int64_t>() + i * kTrialLength);
    }
    std::vector<ops::Tensor> outputs;
    EXPECT_TRUE(
        parts.encoder()
            ->model->Run(ops::ExecutionContext(), *EncoderInputs(*parts.encoder(), ids), outputs)
            .ok());
    return outputs[0];
  };
  size_t coupled = 0;
  for (size_t i = 0; i < sources.size(); i += 2) {
    const ops::Tensor both = run({&sources[i], 2});
    for (size_t row = 0; row < 2; ++row) {
      const ops::Tensor alone = run({&sources[i + row], 1});
      const auto at = static_cast<int64_t>(row);
      coupled += both.dim(0) != 2 || std::memcmp(alone.bytes(), both.Rows(at, at + 1).bytes(),
                                                 static_cast<size_t>(alone.num_bytes())) != 0
                     ? 1
                     : 0;
    }
  }
  return coupled;
}

class EncoderBatching : public ::testing::TestWithParam<TrialEncoder> {};

class CouplingEncoder : public EncoderBatching {};

TEST_P(CouplingEncoder, IsFoundOutAndEncodesOneSourceAtATime) {
  const auto model = CompileTrial(GetParam());
  ASSERT_NE(model, nullptr);
  const auto sources = TrialSources();
  EXPECT_GT(NumCoupled(*model, sources), 0u) << "it couples nothing, so it shows nothing";
  EXPECT_FALSE(model->parts().encoder()->proof.separable);
  EXPECT_FALSE(model->encodes_together());
  EXPECT_THAT(model->encodes_apart(), HasSubstr("'"));  // names a node
  const TrialAnswers alone = DecodeTrial(model, sources, false);
  const TrialAnswers beside = DecodeTrial(model, sources, true);
  EXPECT_EQ(alone.num_failed, 0) << alone.bits[0];
  EXPECT_EQ(NumDifferent(alone, beside), 0u);
  EXPECT_EQ(beside.most_together, 1);
}

class UsualEncoder : public EncoderBatching {};

TEST_P(UsualEncoder, IsProvenAndEncodesSourcesTogether) {
  const auto model = CompileTrial(GetParam());
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->encodes_together()) << model->encodes_apart();
  const auto sources = TrialSources();
  const TrialAnswers alone = DecodeTrial(model, sources, false);
  const TrialAnswers beside = DecodeTrial(model, sources, true);
  EXPECT_EQ(alone.num_failed, 0) << alone.bits[0];
  EXPECT_EQ(NumDifferent(alone, beside), 0u);
  EXPECT_EQ(beside.most_together, 2);
}

// Looks each source up by its loudest feature in a table of this number of lines.
TrialEncoder LookUpByLoudness(int64_t lines) {
  return {"Index", [lines](engine_testing::Layers& in, ops::ValueId x) {
            const auto index = in.Add("Convert", {in.Reduce("ReduceMax", x, {1, 2}, false)},
                                      {{"destination_type", std::string("i64")}});
            const auto table = in.Weight({lines, engine_testing::kFeatures});
            const auto line = in.Add("Gather", {table, index, in.graph.Int(0)});
            return in.Add("Add", {x, in.Add("Unsqueeze", {line, in.graph.Ints({1})})});
          }};
}

// An index that is computed from a source may be none; its neighbours have their answers all the
// same.
TEST(EncoderFailure, IsThatOfItsSourceAlone) {
  const auto sources = TrialSources();
  std::shared_ptr<const DecodeModel> model;
  TrialAnswers alone;
  for (int64_t lines = 12; alone.num_failed == 0 && lines > 1; --lines) {
    model = CompileTrial(LookUpByLoudness(lines));
    ASSERT_NE(model, nullptr);
    alone = DecodeTrial(model, sources, false);
  }
  ASSERT_GT(alone.num_failed, 0);
  ASSERT_LT(alone.num_failed, static_cast<int>(sources.size()));
  ASSERT_TRUE(model->encodes_together()) << model->encodes_apart();
  const TrialAnswers beside = DecodeTrial(model, sources, true);
  EXPECT_EQ(NumDifferent(alone, beside), 0u);
  EXPECT_EQ(beside.most_together, 2);
}

// The model's own encoder couples nothing; that of a member of its ensemble does.
TEST(EncoderOfAMember, IsProvenForItself) {
  const TrialEncoder coupling = engine_testing::CouplingEncoders()[0];
  const TrialEncoder usual = engine_testing::UsualEncoders()[0];
  for (const TrialEncoder& encoder : {usual, coupling}) {
    bundle::Bundle bundle = TrialBundle(usual);
    v1::EnsembleMember& config = *bundle.config.mutable_ensemble()->add_members();
    *config.mutable_decoder() = bundle.config.decoder();
    config.mutable_encoder()->set_graph("member.xml");
    bundle::Bundle::Member& member = bundle.members.emplace_back();
    member.encoder = engine_testing::BuildEncoder(encoder, engine_testing::kVocabulary);
    member.decoder = ScoresOfState();
    const auto model = DecodeModel::Compile(std::move(bundle));
    ASSERT_TRUE(model.ok()) << model.status();
    const v1::Batching described = (*model)->Describe().encoder_batching();
    EXPECT_EQ(described.together(), encoder.name == usual.name) << described.reason();
    EXPECT_THAT(described.reason(), described.together()
                                        ? ::testing::Matcher<std::string>(::testing::IsEmpty())
                                        : HasSubstr("ensemble.members[0]: rows of "));
  }
}

std::string TrialName(const ::testing::TestParamInfo<TrialEncoder>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Family, CouplingEncoder,
                         ::testing::ValuesIn(engine_testing::CouplingEncoders()), TrialName);
INSTANTIATE_TEST_SUITE_P(Family, UsualEncoder, ::testing::ValuesIn(engine_testing::UsualEncoders()),
                         TrialName);

}  // namespace
}  // namespace beamwright::engine
