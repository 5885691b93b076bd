// Which options stay known, and how many.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "include/beamwright/engine.h"
#include "ops/base/fault_point.h"
#include "tests/engine/table_bundle.h"

namespace beamwright::engine {
namespace {

TEST(OptionsCacheTest, KeepsEightShortKeysAndTheLastLongOne) {
  OptionsCache cache;
  const auto resolved = std::make_shared<const ResolvedOptions>();
  const std::string one(OptionsCache::kLongKey + 1, 'a');
  const std::string other(OptionsCache::kLongestKey, 'b');
  cache.Add(one, resolved);
  for (int i = 0; i < 8; ++i) {
    cache.Add(std::to_string(i), resolved);
  }
  EXPECT_EQ(cache.Find(one), resolved);
  EXPECT_EQ(cache.Find("0"), resolved);
  cache.Add("8", resolved);
  EXPECT_EQ(cache.Find("0"), nullptr);
  EXPECT_EQ(cache.Find("1"), resolved);
  cache.Add(other, resolved);
  EXPECT_EQ(cache.Find(one), nullptr);
  EXPECT_EQ(cache.Find(other), resolved);
  const std::string longer = other + "b";
  cache.Add(longer, resolved);
  EXPECT_EQ(cache.Find(longer), nullptr);
  EXPECT_EQ(cache.Find(other), resolved);
}

TEST(MadeOnceTest, KeepsTheFirstThatIsNotNull) {
  const MadeOnce<int> kept;
  EXPECT_EQ(kept.Get([] { return nullptr; }), nullptr);
  const auto made = std::make_shared<const int>(3);
  EXPECT_EQ(kept.Get([&] { return made; }), made);
  EXPECT_EQ(kept.Get([] { return std::make_shared<const int>(4); }), made);
}

std::atomic<int> num_compiled{0};

// The pattern of a bundle's default options is compiled for the first answer without a target
// prefix and for the first one with a prefix, whatever other options requests have.
TEST(DefaultPatternTest, IsCompiledOnceForEachBeginning) {
  constexpr char kPattern[] = "( ?[2-4])+";
  fault_hook = [](const char* point) {
    num_compiled += point == absl::string_view("options.pattern") ? 1 : 0;
    return absl::OkStatus();
  };
  const auto plain =
      *DecodeModel::Compile(engine_testing::TableBundle(engine_testing::RandomTable(21), {}));
  bundle::Bundle bundle = engine_testing::TableBundle(engine_testing::RandomTable(21), {});
  bundle.config.mutable_default_options()->set_regex(kPattern);
  const auto model = *DecodeModel::Compile(std::move(bundle));
  EXPECT_EQ(num_compiled, 1);
  const auto constraint = (*ResolveOptions(*model, {}))->search.constraints.text;
  ASSERT_NE(constraint, nullptr);
  v1::DecodeOptions options;
  for (int n_best = 2; n_best <= 20; ++n_best) {
    options.set_n_best(n_best);
    options.set_beam_size(n_best);
    EXPECT_EQ((*ResolveOptions(*model, options))->search.constraints.text, constraint);
  }
  options.set_regex(kPattern);
  EXPECT_EQ((*ResolveOptions(*model, options))->search.constraints.text, constraint);
  EXPECT_EQ(num_compiled, 1);
  for (int token = 2; token <= 4; ++token) {
    options.mutable_target_prefix()->mutable_ids()->add_ids(token);
    EXPECT_NE((*ResolveOptions(*model, options))->search.constraints.text, constraint);
    EXPECT_EQ(num_compiled, 2);
  }
  options.set_regex("( ?[2-5])+");
  EXPECT_TRUE(ResolveOptions(*model, options).ok());
  EXPECT_EQ(num_compiled, 3);
  fault_hook = nullptr;
  // The answers are those of requests that bring the pattern.
  const auto engine = *Engine::Start({1, 512, 1000});
  v1::Source source;
  source.mutable_ids()->add_ids(3);
  options.Clear();
  options.set_n_best(3);
  options.set_beam_size(4);
  const auto usual = engine->DecodeAndWait(model, source, options);
  options.set_regex(kPattern);
  const auto brought = engine->DecodeAndWait(plain, source, options);
  ASSERT_TRUE(usual.ok() && brought.ok()) << usual.status() << brought.status();
  ASSERT_EQ(usual->hypotheses_size(), brought->hypotheses_size());
  for (int i = 0; i < usual->hypotheses_size(); ++i) {
    EXPECT_EQ(usual->hypotheses(i).text(), brought->hypotheses(i).text());
    EXPECT_EQ(usual->hypotheses(i).log_prob(), brought->hypotheses(i).log_prob());
  }
}

}  // namespace
}  // namespace beamwright::engine
