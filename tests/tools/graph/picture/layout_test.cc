#include "tools/graph/picture/layout.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamwright::ops {
namespace {

struct LayoutCase {
  std::vector<LayoutItem> items;
  std::vector<LayoutEdge> edges;
};

LayoutCase RandomCase(size_t num_items, uint32_t seed) {
  std::mt19937 random(seed);
  LayoutCase made;
  for (size_t i = 0; i < num_items; ++i) {
    made.items.push_back({40.0 + random() % 100, 20.0 * (1 + random() % 3), 50});
    for (uint32_t edges = random() % 3; i > 0 && edges > 0; --edges) {
      // Mostly to what is near, sometimes to anything.
      const size_t back = 1 + random() % (random() % 8 == 0 ? i : std::min<size_t>(i, 4));
      made.edges.push_back({static_cast<int>(i - back), static_cast<int>(i)});
    }
  }
  return made;
}

struct Area {
  double left, top, right, bottom;
};

// Of items, then of mentions.
std::vector<Area> Areas(const LayoutCase& given, const Layout& layout) {
  std::vector<Area> areas;
  for (size_t i = 0; i < given.items.size(); ++i) {
    const Point corner = layout.corners[i];
    areas.push_back(
        {corner.x, corner.y, corner.x + given.items[i].width, corner.y + given.items[i].height});
  }
  for (const Layout::Mention& mention : layout.mentions) {
    areas.push_back({mention.corner.x, mention.corner.y, mention.corner.x + mention.width,
                     mention.corner.y + kMentionHeight});
  }
  return areas;
}

class RandomLayoutTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomLayoutTest, NothingOverlapsOrLiesOutside) {
  const LayoutCase given = RandomCase(20 + 20 * GetParam(), GetParam());
  const Layout layout = LayOut(given.items, given.edges);
  const std::vector<Area> areas = Areas(given, layout);
  constexpr double kSlack = 0.01;
  for (size_t i = 0; i < areas.size(); ++i) {
    const Area& a = areas[i];
    EXPECT_GE(a.left, -kSlack);
    EXPECT_GE(a.top, -kSlack);
    EXPECT_LE(a.right, layout.width + kSlack);
    EXPECT_LE(a.bottom, layout.height + kSlack);
    for (size_t j = 0; j < i; ++j) {
      const Area& b = areas[j];
      EXPECT_TRUE(a.right <= b.left + kSlack || b.right <= a.left + kSlack ||
                  a.bottom <= b.top + kSlack || b.bottom <= a.top + kSlack)
          << i << " and " << j;
    }
  }
}

// Each edge is one line from its item, or from a mention of it, down to the one that reads it.
TEST_P(RandomLayoutTest, EveryEdgeLeadsDownToItsItem) {
  const LayoutCase given = RandomCase(20 + 20 * GetParam(), GetParam());
  const Layout layout = LayOut(given.items, given.edges);
  std::vector<int> drawn(given.edges.size());
  for (const Layout::Line& line : layout.lines) {
    const LayoutEdge& edge = given.edges[static_cast<size_t>(line.edge)];
    ++drawn[static_cast<size_t>(line.edge)];
    ASSERT_EQ(line.points.size() % 2, 0u);
    for (size_t i = 1; i < line.points.size(); ++i) {
      EXPECT_GE(line.points[i].y, line.points[i - 1].y);
    }
    const std::vector<Area> areas = Areas(given, layout);
    const size_t from = line.mention < 0 ? static_cast<size_t>(edge.from)
                                         : given.items.size() + static_cast<size_t>(line.mention);
    if (line.mention >= 0) {
      EXPECT_EQ(layout.mentions[static_cast<size_t>(line.mention)].item, edge.from);
    }
    EXPECT_NEAR(line.points.front().y, areas[from].bottom, 0.01);
    EXPECT_NEAR(line.points.front().x, (areas[from].left + areas[from].right) / 2, 0.01);
    const Area& to = areas[static_cast<size_t>(edge.to)];
    EXPECT_NEAR(line.points.back().y, to.top, 0.01);
    EXPECT_GT(line.points.back().x, to.left);
    EXPECT_LT(line.points.back().x, to.right);
  }
  EXPECT_THAT(drawn, ::testing::Each(1));
}

INSTANTIATE_TEST_SUITE_P(All, RandomLayoutTest, ::testing::Range(0u, 12u));

TEST(LayoutTest, AChainGoesOnInOtherColumns) {
  LayoutCase chain;
  for (int i = 0; i < 100; ++i) {
    chain.items.push_back({80, 20, 50});
    if (i > 0) {
      chain.edges.push_back({i - 1, i});
    }
  }
  const Layout layout = LayOut(chain.items, chain.edges);
  EXPECT_GE(layout.column_ends.size(), 3u);
  EXPECT_EQ(layout.mentions.size(), layout.column_ends.size());
  EXPECT_LT(std::max(layout.width, layout.height), 2 * std::min(layout.width, layout.height));
}

TEST(LayoutTest, WhatIsReadFarBelowIsMentionedThere) {
  LayoutCase given;
  for (int i = 0; i < 14; ++i) {
    given.items.push_back({80, 20, 50});
    if (i > 0) {
      given.edges.push_back({i - 1, i});
    }
  }
  given.edges.push_back({0, 13});
  const Layout layout = LayOut(given.items, given.edges);
  ASSERT_FALSE(layout.mentions.empty());
  EXPECT_TRUE(std::any_of(layout.mentions.begin(), layout.mentions.end(),
                          [](const Layout::Mention& mention) { return mention.item == 0; }));
}

TEST(LayoutTest, NothingGivesNothing) {
  const Layout layout = LayOut({}, {});
  EXPECT_EQ(layout.width, 0);
  EXPECT_EQ(layout.height, 0);
}

}  // namespace
}  // namespace beamwright::ops
