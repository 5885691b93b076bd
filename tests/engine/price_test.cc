// What single options add to the price of a request.
#include <gtest/gtest.h>

#include "engine/beam/beam_search_kind.h"
#include "tests/engine/attention_bundle.h"

namespace beamwright::engine {
namespace {

constexpr int kBeamSize = 3;
constexpr int kSourceLength = 5;
constexpr int kMaxLength = 11;
constexpr int kPrefixLength = 2;

class PriceTest : public ::testing::Test {
 protected:
  PriceTest() {
    model_ = *DecodeModel::Compile(engine_testing::AttentionBundle(engine_testing::RandomTable(1)));
    options_.beam_size = kBeamSize;
    options_.n_best = 1;
    options_.max_length = kMaxLength;
    options_.constraints.prefix.assign(kPrefixLength, 3);
  }

  int64_t Price(bool keeps_attention = false) const {
    return PriceBytes(*model_, options_, kSourceLength, keeps_attention);
  }

  std::shared_ptr<const DecodeModel> model_;
  search::SearchOptions options_;
};

// Of each row the sums over all tokens, those of the step before and those of this one.
TEST_F(PriceTest, CoverageCostsTwoDoublesForEachRowAndPosition) {
  const int64_t plain = Price();
  options_.coverage_penalty = 0.5;
  EXPECT_EQ(Price() - plain, 2 * 8 * kBeamSize * kSourceLength);
}

TEST_F(PriceTest, AttentionThatIsKeptCostsAFloatForEachRowPositionAndStep) {
  EXPECT_EQ(Price(/*keeps_attention=*/true) - Price(),
            4 * kBeamSize * kSourceLength * (kMaxLength + kPrefixLength));
}

}  // namespace
}  // namespace beamwright::engine
