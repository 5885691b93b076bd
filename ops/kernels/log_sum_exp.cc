#include "ops/kernels/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/kernels/math.h"

namespace beamwright::ops {

float LogSumExp(absl::Span<const float> values, float largest) {
  if (largest == -std::numeric_limits<float>::infinity()) {
    return -std::numeric_limits<float>::infinity();
  }
  constexpr int64_t kTerms = 256;
  const float* const x = values.data();
  const int64_t count = static_cast<int64_t>(values.size());
  double sum = 0;
  Vectorized([=, &sum]() BW_ALWAYS_INLINE {
    for (int64_t first = 0; first < count; first += kTerms) {
      const float* const block = x + first;
      sum += LaneSum(std::min(kTerms, count - first), [block, largest](int64_t i) BW_ALWAYS_INLINE {
        return Exp(block[i] - largest);
      });
    }
  });
  return static_cast<float>(static_cast<double>(largest) + std::log(sum));
}

}  // namespace beamwright::ops
