#include "engine/search/timestamps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace beamwright::search {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Tokens 0 to 9 are texts, 10 ends, 11 is another one, times are 12 to 99.
constexpr int32_t kEnd = 10;
constexpr int32_t kFirst = 12;
constexpr int32_t kVocabulary = 100;

// Which tokens may follow.
std::vector<int32_t> Open(const std::vector<int32_t>& tokens, int num_generated) {
  const Timestamps times(kFirst, kVocabulary, kEnd);
  RuleBuffer rules;
  times.Apply({tokens, num_generated, 0}, rules);
  std::vector<int32_t> open;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    const bool is_barred =
        std::any_of(rules.edits().begin(), rules.edits().end(),
                    [&](const LogitEdit& edit) { return edit.token == token; }) ||
        (rules.has_allowed() &&
         !std::binary_search(rules.allowed().begin(), rules.allowed().end(), token));
    if (!is_barred) {
      open.push_back(token);
    }
  }
  return open;
}

TEST(TimestampsTest, AnswersBeginWithATimeOfAtMostASecond) {
  const std::vector<int32_t> open = Open({11, 11}, 0);
  EXPECT_THAT(open, SizeIs(51));
  EXPECT_EQ(open.front(), kFirst);
}

TEST(TimestampsTest, TimesComeInPairsAndDoNotFall) {
  // Behind the first time, or a pair: text.
  EXPECT_EQ(Open({11, 20}, 1), Open({11, 20, 3, 30, 30}, 4));
  EXPECT_THAT(Open({11, 20}, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  // Behind a text and a time: a time of at least that one, or the end.
  const std::vector<int32_t> behind = Open({11, 20, 3, 97}, 3);
  EXPECT_THAT(behind, ElementsAre(10, 11, 97, 98, 99));
  // Behind a text: text, or a later time.
  const std::vector<int32_t> later = Open({11, 20, 3, 97, 97, 4}, 5);
  EXPECT_THAT(later, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 98, 99));
  // A time of the prefix does not count.
  EXPECT_THAT(Open({99, 20, 4}, 2), SizeIs(12 + 79));
}

}  // namespace
}  // namespace beamwright::search
