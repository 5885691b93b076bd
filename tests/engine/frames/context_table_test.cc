// Which slots a stateless predictor's contexts have, as histories come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/frames/label_models.h"

namespace beamwright::engine {
namespace {

using ::testing::ElementsAre;

class ContextTableTest : public ::testing::Test {
 protected:
  // A context that was computed and that is no longer held.
  int32_t Visit(std::vector<int32_t> context) {
    const int32_t slot = table_.Hold(context);
    table_.SetReady(slot);
    table_.Release(slot);
    return slot;
  }

  SlotPool pool_{{}, {}};
  ContextTable table_{pool_, 2};
};

TEST_F(ContextTableTest, EqualContextsShareASlotThatIsComputedOnce) {
  const int32_t slot = table_.Hold({1, 2});
  EXPECT_THAT(table_.context(slot), ElementsAre(1, 2));
  EXPECT_TRUE(table_.NeedsRun(slot, 1));
  EXPECT_EQ(table_.Hold({1, 2}), slot);
  EXPECT_FALSE(table_.NeedsRun(slot, 1)) << "another request asked for it in this run";
  EXPECT_NE(table_.Hold({2, 1}), slot);
  EXPECT_TRUE(table_.NeedsRun(slot, 2)) << "the run before was broken off";
  table_.SetReady(slot);
  EXPECT_FALSE(table_.NeedsRun(slot, 3));
}

TEST_F(ContextTableTest, TheLeastRecentlyUsedIsGivenUpFirst) {
  const int32_t first = Visit({1, 1});
  Visit({2, 2});
  EXPECT_EQ(table_.Hold({1, 1}), first);
  EXPECT_FALSE(table_.NeedsRun(first, 1)) << "it was kept";
  table_.Release(first);  // used later than {2, 2}
  Visit({3, 3});
  EXPECT_EQ(table_.size(), 2);
  EXPECT_FALSE(table_.NeedsRun(table_.Hold({1, 1}), 2));
  EXPECT_TRUE(table_.NeedsRun(table_.Hold({2, 2}), 2));
}

TEST_F(ContextTableTest, WhatWasNeverComputedIsNotKept) {
  const int32_t slot = table_.Hold({1, 2});
  EXPECT_TRUE(table_.NeedsRun(slot, 1));
  table_.Release(slot);
  EXPECT_EQ(table_.size(), 0);
  EXPECT_TRUE(table_.NeedsRun(table_.Hold({1, 2}), 1));
}

TEST_F(ContextTableTest, NoMoreSlotsAreTakenThanContextsThatAreHeldOrKept) {
  int32_t highest = 0;
  for (int32_t i = 0; i < 1000; ++i) {
    highest = std::max(highest, Visit({i % 4, i}));
  }
  EXPECT_EQ(table_.size(), 2);
  EXPECT_LE(highest, 4);
}

}  // namespace
}  // namespace beamwright::engine
