#include <vector>

#include "engine/search/frames/frame_search.h"
#include "gtest/gtest.h"
#include "tests/engine/search/frames/run_ctc.h"

namespace beamwright::search {
namespace {

TEST(EndpointTest, TheFirstRuleThatIsMetWhollyIsTold) {
  const std::vector<EndpointRule> rules = {{.min_trailing_blanks = 10},
                                           {.needs_label = true, .min_trailing_blanks = 4},
                                           {.min_frames = 50}};
  EXPECT_EQ(MetRule(rules, 0, 9, 9), -1);
  EXPECT_EQ(MetRule(rules, 0, 10, 10), 0);
  EXPECT_EQ(MetRule(rules, 1, 3, 20), -1);
  EXPECT_EQ(MetRule(rules, 1, 4, 20), 1);
  EXPECT_EQ(MetRule(rules, 0, 4, 20), -1);
  EXPECT_EQ(MetRule(rules, 3, 0, 50), 2);
  EXPECT_EQ(MetRule({}, 3, 100, 100), -1);
}

TEST(EndpointTest, AsksTheLeadingHypothesis) {
  FrameOptions options;
  options.kind = FrameKind::kCtc;
  options.vocabulary_size = 2;
  frames_testing::CtcRun run(options);
  const std::vector<EndpointRule> rules = {{.needs_label = true, .min_trailing_blanks = 2}};
  const std::vector<float> label = {-5, -0.01f};
  const std::vector<float> blank = {-0.01f, -5};
  std::vector<int> met;
  for (const auto& row : {blank, blank, blank, label, label, blank, blank, blank}) {
    ASSERT_TRUE(run.Advance(row).ok());
    met.push_back(MetRule(rules, run.search()));
  }
  EXPECT_EQ(met, std::vector<int>({-1, -1, -1, -1, -1, -1, 0, 0}));
  EXPECT_EQ(run.search().trailing_blanks(), 3);
  EXPECT_EQ(run.search().num_labels(), 1);
}

}  // namespace
}  // namespace beamwright::search
