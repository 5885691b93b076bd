// Sets of sequences as automata: tries of tokens, and strings that end an answer.

#include "engine/search/tries.h"

#include <algorithm>
#include <random>
#include <set>

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

// Stop strings against plain searches in whole texts.

namespace {

// The place where the answer's text ends, byte by byte; npos: nowhere.
size_t PlainEnd(const std::string& text, const std::vector<std::string>& strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& string : strings) {
      if (end >= string.size() && text.compare(end - string.size(), string.size(), string) == 0) {
        longest = std::max(longest, string.size());
      }
    }
    if (longest > 0) {
      return end - longest;
    }
  }
  return std::string::npos;
}

// The longest end of the text that a string begins with.
std::string PlainBegun(const std::string& text, const std::vector<std::string>& strings) {
  std::string begun;
  for (const std::string& string : strings) {
    for (size_t size = 1; size < string.size() && size <= text.size(); ++size) {
      if (size > begun.size() && text.substr(text.size() - size) == string.substr(0, size)) {
        begun = string.substr(0, size);
      }
    }
  }
  return begun;
}

TEST(StopStringsTest, AreFoundWhereverTokensEnd) {
  std::mt19937 random(1);
  const auto letters = [&](size_t least, size_t most) {
    std::string text;
    for (size_t i = least + random() % (most - least + 1); i > 0; --i) {
      text += "ab"[random() % 2];
    }
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> writes(6);
    for (std::string& text : writes) {
      text = letters(0, 3);
    }
    std::vector<std::string> strings(1 + random() % 3);
    for (std::string& string : strings) {
      string = letters(1, 6);
    }
    const StopStrings stop(strings, [&](int32_t token, bool is_first) {
      return (is_first ? "" : "_") + writes[static_cast<size_t>(token)];
    });
    std::vector<int32_t> tokens;
    std::string text;
    int64_t state = stop.Start(/*begins_text=*/true);
    for (int i = 0; i < 8 && !StopStrings::Stops(state); ++i) {
      tokens.push_back(static_cast<int32_t>(random() % writes.size()));
      text += (tokens.size() == 1 ? "" : "_") + writes[static_cast<size_t>(tokens.back())];
      state = stop.Next(state, tokens.back());
      const size_t end = PlainEnd(text, strings);
      ASSERT_EQ(StopStrings::Stops(state), end != std::string::npos) << text;
      const StopStrings::Ending ending = stop.Read(tokens, /*begins_text=*/true);
      ASSERT_EQ(ending.stops, end != std::string::npos) << text;
      ASSERT_EQ(ending.rest, ending.stops ? text.substr(end) : PlainBegun(text, strings)) << text;
    }
    stopped += StopStrings::Stops(state) ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
}

}  // namespace

}  // namespace beamwright::search
