#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "ops/graph/operator.h"

namespace beamwright::ops {
namespace {

using ::testing::ElementsAre;

TEST(RowFamilies, AreNumberedAsRowsBringThemUp) {
  RowFamilies families;
  families.Assign({7, 2, 7, 0, 2});
  EXPECT_THAT(families.parents(), ElementsAre(7, 2, 0));
  EXPECT_THAT(families.rows(), ElementsAre(0, 2, 1, 4, 3));
  EXPECT_EQ(families.num_rows(), 5);
  EXPECT_EQ(families.first(0), 0);
  EXPECT_EQ(families.first(1), 2);
  EXPECT_EQ(families.first(2), 4);
  EXPECT_EQ(families.first(3), 5);
  EXPECT_FALSE(families.in_order());
}

TEST(RowFamilies, OfNoRowsAreNone) {
  RowFamilies families;
  families.Assign({});
  EXPECT_EQ(families.num_families(), 0);
  EXPECT_EQ(families.num_rows(), 0);
  EXPECT_EQ(families.first(0), 0);
  EXPECT_TRUE(families.in_order());
}

// Every row is in one family, that of its parent; one object from step to step.
TEST(RowFamilies, HoldEveryRowOnce) {
  RowFamilies families;
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> parents(random() % 40);
    const uint32_t sources = 1 + random() % 30;
    for (int32_t& parent : parents) {
      parent = static_cast<int32_t>(random() % sources);
    }
    if (round % 3 == 0) {
      std::sort(parents.begin(), parents.end());
    }
    families.Assign(parents);
    ASSERT_EQ(families.num_rows(), static_cast<int>(parents.size()));
    ASSERT_EQ(families.first(families.num_families()), families.num_rows());
    std::vector<int> seen(parents.size(), 0);
    for (int family = 0; family < families.num_families(); ++family) {
      ASSERT_LT(families.first(family), families.first(family + 1));
      for (int i = families.first(family); i < families.first(family + 1); ++i) {
        const auto row = static_cast<size_t>(families.rows()[static_cast<size_t>(i)]);
        ++seen[row];
        EXPECT_EQ(parents[row], families.parents()[static_cast<size_t>(family)]);
      }
    }
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), families.num_rows());
    EXPECT_EQ(families.in_order(), std::is_sorted(families.rows().begin(), families.rows().end()));
  }
}

}  // namespace
}  // namespace beamwright::ops
