#include <gtest/gtest.h>

#include "ops/graph/graph.h"

namespace beamwright::ops {
namespace {

// Copies share what they hold until one of them changes.
TEST(AttributesTest, ACopyIsItsOwn) {
  Attributes first;
  EXPECT_FALSE(first.Has("axis"));
  EXPECT_TRUE(first.values().empty());
  first.Set("axis", int64_t{1});
  Attributes second = first;
  second.Set("axis", int64_t{2});
  first.Set("mode", std::string("numpy"));
  EXPECT_EQ(first.Int("axis", 0).value(), 1);
  EXPECT_EQ(second.Int("axis", 0).value(), 2);
  EXPECT_FALSE(second.Has("mode"));
  const Attributes third = first;
  first = Attributes();
  EXPECT_FALSE(first.Has("axis"));
  EXPECT_EQ(third.Int("axis", 0).value(), 1);
}

}  // namespace
}  // namespace beamwright::ops
