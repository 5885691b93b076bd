#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "server/serving/model_loader.h"

namespace beamwright::serving {
namespace {

// Against the definition: of all sets of idle residents that free enough, the one whose members
// were used before all others. Every set of up to eight residents is looked at.
TEST(ChooseVictims, TakesTheLeastRecentlyUsedThatNoCallHolds) {
  std::mt19937 random(7);
  const auto pick = [&random](int most) {
    return static_cast<int>(random() % (static_cast<unsigned>(most) + 1));
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<Resident> residents(static_cast<size_t>(pick(8)));
    std::vector<uint64_t> uses(residents.size());
    for (size_t i = 0; i < uses.size(); ++i) {
      uses[i] = i;
    }
    std::shuffle(uses.begin(), uses.end(), random);
    for (size_t i = 0; i < residents.size(); ++i) {
      residents[i] = {1 + pick(20), uses[i], pick(3) == 0};
    }
    const int64_t bytes = pick(60);
    std::optional<std::vector<size_t>> expected;
    uint64_t least_last_use = UINT64_MAX;  // the most recent use in the best set
    for (unsigned set = 0; set < (1u << residents.size()); ++set) {
      int64_t freed = 0;
      uint64_t last = 0;
      bool idle = true;
      std::vector<size_t> members;
      for (size_t i = 0; i < residents.size(); ++i) {
        if ((set >> i & 1) != 0) {
          freed += residents[i].bytes;
          last = std::max(last, residents[i].last_use + 1);
          idle = idle && !residents[i].in_use;
          members.push_back(i);
        }
      }
      if (!idle || freed < bytes) {
        continue;
      }
      // Every idle resident used before the last of the set is in it.
      for (size_t i = 0; i < residents.size(); ++i) {
        if (!residents[i].in_use && residents[i].last_use + 1 <= last && (set >> i & 1) == 0) {
          idle = false;
        }
      }
      if (idle && last < least_last_use) {
        least_last_use = last;
        expected = members;
      }
    }
    std::optional<std::vector<size_t>> chosen = ChooseVictims(residents, bytes);
    ASSERT_EQ(chosen.has_value(), expected.has_value()) << round;
    if (chosen.has_value()) {
      std::sort(chosen->begin(), chosen->end());
      ASSERT_EQ(*chosen, *expected) << round;
    }
  }
}

}  // namespace
}  // namespace beamwright::serving
