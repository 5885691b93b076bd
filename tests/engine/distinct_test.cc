// Lists of texts: hypotheses whose tokens differ and whose text does not are listed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "include/beamwright/engine.h"
#include "tests/engine/frames/ctc_bundle.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

using engine_testing::CtcBundle;
using engine_testing::kFeatures;
using engine_testing::RandomFeatures;
using engine_testing::RandomTable;
using engine_testing::TableBundle;

std::shared_ptr<const bundle::TextCodec> TextOf(const v1::TextConfig& config,
                                                const std::string& vocabulary,
                                                Vocabulary::Lines lines) {
  auto codec = bundle::TextCodec::Create(config, vocabulary, lines);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return *std::move(codec);
}

// Many pieces that join to the same words.
std::shared_ptr<const DecodeModel> Pieces() {
  bundle::Bundle bundle = TableBundle(RandomTable(4), {});
  v1::TextConfig& target = *bundle.config.mutable_target();
  target.set_form(v1::TEXT_FORM_PIECES);
  target.clear_size();
  target.set_vocabulary("pieces.vocab");
  target.set_begin_token("<s>");
  target.mutable_end_tokens()->Clear();
  target.add_end_tokens("</s>");
  const std::vector<std::string> tokens = {"<s>", "</s>", "a", "aa", "aaa", "b", "ab", "ba", "bb"};
  std::string vocabulary;
  for (int id = 0; id < engine_testing::kVocabulary; ++id) {
    const auto at = static_cast<size_t>(id);
    vocabulary += (at < tokens.size() ? tokens[at] : std::string(at, 'a')) + "\n";
  }
  bundle.target = TextOf(target, vocabulary, Vocabulary::Lines::kDistinct);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Columns that share a text.
std::shared_ptr<const DecodeModel> Columns() {
  bundle::Bundle bundle = CtcBundle({});
  bundle.target = TextOf(bundle.config.target(), "_\na\na\nb\nb\n", Vocabulary::Lines::kColumns);
  auto model = DecodeModel::Compile(std::move(bundle));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

v1::Source Ids() {
  v1::Source source;
  source.mutable_ids()->add_ids(3);
  source.mutable_ids()->add_ids(4);
  return source;
}

v1::Source Frames() {
  const std::vector<float> values = RandomFeatures(6, 3);
  v1::Source source;
  v1::Tensor& tensor = *source.mutable_features();
  tensor.set_dtype("f32");
  tensor.add_shape(6);
  tensor.add_shape(kFeatures);
  tensor.set_data(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return source;
}

void ExpectTextsOnce(const std::shared_ptr<const DecodeModel>& model, const v1::Source& source) {
  const auto engine = *Engine::Start({1, 512, 1000});
  v1::DecodeOptions options;
  options.set_beam_size(16);
  options.set_n_best(16);
  options.set_max_length(6);
  const auto all = engine->DecodeAndWait(model, source, options);
  ASSERT_TRUE(all.ok()) << all.status();
  std::vector<v1::Hypothesis> expected;
  std::set<std::string> texts;
  for (const v1::Hypothesis& hypothesis : all->hypotheses()) {
    if (texts.insert(hypothesis.text()).second) {
      expected.push_back(hypothesis);
    }
  }
  // The list up to the first text that occurs a second time, and one place more.
  size_t n_best = 0;
  while (n_best < expected.size() &&
         expected[n_best].SerializeAsString() ==
             all->hypotheses(static_cast<int>(n_best)).SerializeAsString()) {
    ++n_best;
  }
  ASSERT_LT(n_best++, expected.size()) << "no text occurs twice before another one";
  options.set_distinct(v1::DISTINCT_TEXT);
  for (const size_t asked : {size_t{1}, n_best, size_t{16}}) {
    options.set_n_best(static_cast<int>(asked));
    const auto found = engine->DecodeAndWait(model, source, options);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(static_cast<size_t>(found->hypotheses_size()), std::min(asked, expected.size()));
    for (int i = 0; i < found->hypotheses_size(); ++i) {
      EXPECT_EQ(found->hypotheses(i).SerializeAsString(),
                expected[static_cast<size_t>(i)].SerializeAsString());
    }
  }
}

TEST(DistinctTest, EqualTextsAreListedOnce) { ExpectTextsOnce(Pieces(), Ids()); }

TEST(DistinctTest, EqualTextsOfFramesAreListedOnce) { ExpectTextsOnce(Columns(), Frames()); }

}  // namespace
}  // namespace beamwright::engine
