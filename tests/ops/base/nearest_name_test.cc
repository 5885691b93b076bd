#include "gtest/gtest.h"
#include "ops/base/names.h"

namespace beamwright {
namespace {

TEST(NearestNameTest, TheNearestNameIfOneIsNear) {
  const std::vector<std::string> names = {"beam-size", "beam-threshold", "n-best",
                                          "length-penalty"};
  EXPECT_EQ(NearestName("beamsize", names), "beam-size");
  EXPECT_EQ(NearestName("baem-size", names), "beam-size");
  EXPECT_EQ(NearestName("len", names), "length-penalty");  // begins only that one
  EXPECT_EQ(NearestName("beam", names), "");               // begins two
  EXPECT_EQ(NearestName("nbset", names), "");
  EXPECT_EQ(NearestName("n_best", names), "n-best");
  EXPECT_EQ(NearestName("quantum", names), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'n'), names), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace beamwright
