// Which options stay known, and how many.
#include "engine/model/options_cache.h"

#include <gtest/gtest.h>

#include "engine/options/decode_options.h"

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

}  // namespace
}  // namespace beamwright::engine
