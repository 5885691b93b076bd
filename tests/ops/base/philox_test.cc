#include "ops/base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamwright {
namespace {

using ::testing::ElementsAre;

// Known answers that the authors publish with their library (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, 0),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffffu),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822u),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, UniformNumbersLieInsideTheUnitInterval) {
  double sum = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const double u = PhiloxUniform({i, 7, 0, 0}, 42);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);  // five standard deviations
}

}  // namespace
}  // namespace beamwright
