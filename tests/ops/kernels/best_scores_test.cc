#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "ops/base/vector_isa.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::ops {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

std::vector<TokenScore> Sorted(const std::vector<float>& values, size_t most) {
  std::vector<TokenScore> all;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != kNone) {
      all.push_back({values[i], static_cast<int32_t>(i)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TokenScore& a, const TokenScore& b) { return a.value > b.value; });
  all.resize(std::min(all.size(), most));
  return all;
}

class BestScores : public ::testing::TestWithParam<VectorIsa> {
 protected:
  const ScopedVectorIsa isa_{GetParam()};
};

// Blocks of any length, values that tie, that fall, that rise (each one enters) and that are
// missing, lists shorter and longer than what is ranked at once.
TEST_P(BestScores, AreThoseOfASort) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> values(static_cast<size_t>(pick(0, 300)));
    const int kind = pick(0, 4);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<float>(i);
      values[i] = kind == 0   ? static_cast<float>(pick(-3, 3))
                  : kind == 1 ? -at
                  : kind == 2 ? at
                              : std::normal_distribution<float>(0, 1e10f)(random);
      if (kind == 4 && pick(0, 2) == 0) {
        values[i] = kNone;
      }
    }
    const size_t most = static_cast<size_t>(pick(0, 1) == 0 ? pick(0, 16) : pick(17, 70));
    std::vector<TokenScore> best;
    for (size_t first = 0; first < values.size();) {
      const size_t count =
          std::min(static_cast<size_t>(pick(0, 1) == 0 ? pick(1, kScanBlock) : kScanBlock),
                   values.size() - first);
      KeepBest(absl::MakeConstSpan(values).subspan(first, count), static_cast<int32_t>(first), most,
               best);
      first += count;
    }
    ASSERT_EQ(best, Sorted(values, most)) << "round " << round << ", most " << most;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BestScores,
                         ::testing::Values(VectorIsa::kPlain, VectorIsa::kAvx2,
                                           VectorIsa::kAvx512));

}  // namespace
}  // namespace beamwright::ops
