// Sums of probabilities by their logarithms, in double. One definition, so that a sum of alignments
// has the same bits wherever it is taken: terms are added in order, each sum with the larger first.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_ADD_H_
#define BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_ADD_H_

#include <cmath>
#include <limits>
#include <utility>

namespace beamwright::search {

inline constexpr double kLogZero = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)); a and b below +infinity. Terms below e^-40 of the larger are below half a
// unit of the last place and are not computed.
inline double LogAdd(double a, double b) {
  if (a < b) {
    std::swap(a, b);
  }
  const double distance = b - a;  // NaN where both are -infinity
  return distance > -40 ? a + std::log1p(std::exp(distance)) : a;
}

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_FRAMES_LOG_ADD_H_
