// Buckets: the upper bounds of the histograms, which operators may choose: where a promise is kept
// or broken there should be a bound.
#ifndef BEAMWRIGHT_SERVER_SERVING_BUCKETS_H_
#define BEAMWRIGHT_SERVER_SERVING_BUCKETS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::serving {

class Buckets {
 public:
  // The defaults, which docs/operations.md lists.
  Buckets();

  // "beamwright_step_duration_seconds=0.001,0.01,0.1": from now on those are the bounds of that
  // family. InvalidArgument for an unknown family (all are named then), and for bounds
  // that are not numbers, not finite, not ascending, or more than kMaxBounds.
  absl::Status Set(const std::string& text);

  // Of a family that there is; ascending, without the +Inf that every histogram has.
  const std::vector<double>& Of(const std::string& family) const { return bounds_.at(family); }

  static constexpr int kMaxBounds = 100;

 private:
  std::map<std::string, std::vector<double>> bounds_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_BUCKETS_H_
