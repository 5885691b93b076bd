#include <algorithm>
#include <random>
#include <set>

#include "engine/search/tries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::search {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TokenTrieTest, SmallOneByHand) {
  const TokenTrie trie({{5, 2}, {5}, {7, 1}, {5, 2}}, {9, 3});
  EXPECT_THAT(trie.Children(TokenTrie::kRoot), ElementsAre(5, 7));
  EXPECT_FALSE(trie.IsEntry(TokenTrie::kRoot));
  const int64_t five = trie.Child(TokenTrie::kRoot, 5);
  EXPECT_THAT(trie.Children(five), ElementsAre(2, 3, 9));  // goes on, or ends
  EXPECT_TRUE(trie.IsEntry(five));
  EXPECT_TRUE(trie.IsEntry(trie.Child(five, 3)));
  EXPECT_THAT(trie.Children(trie.Child(five, 3)), IsEmpty());
  const int64_t seven = trie.Child(TokenTrie::kRoot, 7);
  EXPECT_FALSE(trie.IsEntry(seven));
  EXPECT_THAT(trie.Children(seven), ElementsAre(1));
  EXPECT_EQ(trie.Child(seven, 2), TokenTrie::kNowhere);
  EXPECT_EQ(trie.Child(TokenTrie::kNowhere, 5), TokenTrie::kNowhere);
  EXPECT_THAT(trie.Children(TokenTrie::kNowhere), IsEmpty());
  EXPECT_FALSE(trie.IsEntry(TokenTrie::kNowhere));
}

TEST(TokenTrieTest, HoldsExactlyItsEntries) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::set<TokenSequence> entries;
    for (int i = 0; i < 60; ++i) {
      TokenSequence entry(1 + random() % 5);
      std::generate(entry.begin(), entry.end(),
                    [&] { return static_cast<int32_t>(1 + random() % 4); });
      entries.insert(entry);
    }
    const TokenTrie trie({entries.begin(), entries.end()}, {0});
    // Walks everything that the trie allows; what it closes by the end token must be the entries.
    std::set<TokenSequence> found;
    std::vector<std::pair<int64_t, TokenSequence>> open = {{TokenTrie::kRoot, {}}};
    while (!open.empty()) {
      const auto [node, tokens] = open.back();
      open.pop_back();
      const auto children = trie.Children(node);
      EXPECT_TRUE(std::is_sorted(children.begin(), children.end()));
      for (const int32_t token : children) {
        TokenSequence next = tokens;
        next.push_back(token);
        if (token == 0) {
          EXPECT_TRUE(found.insert(tokens).second);
          EXPECT_TRUE(trie.IsEntry(node));
        } else {
          open.push_back({trie.Child(node, token), next});
        }
      }
    }
    EXPECT_EQ(found, entries);
  }
}

}  // namespace
}  // namespace beamwright::search
