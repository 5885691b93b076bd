// Every family of metrics that Metrics counts itself. A new one is an enumerator here, its line in
// metric_families.cc, which the compiler asks for, and a line where it happens.
#ifndef BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_
#define BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::serving {

namespace metric {

// Histograms, of each model.
enum Measure {
  kRequestSeconds,
  kQueueSeconds,  // also by priority
  kComputeSeconds,
  kFirstTokenSeconds,
  kEncodeSeconds,
  kStepSeconds,
  kStepRows,
  kSourceTokens,
  kTargetTokens,
  kOutputTokenSeconds,
  kTopkSeconds,
  kCancelSeconds,
  kCancelSteps,
  kLoadSeconds,
  kNumMeasures
};

// Counters.
enum Count { kCalls, kRejections, kSources, kFinished, kLoads, kEvictions, kRowSteps, kNumCounts };

}  // namespace metric

struct MeasureFamily {
  metric::Measure measure;
  const char* name;
  const char* help;
  std::vector<double> bounds;  // the defaults; docs/operations.md lists them
};

// By enumerator.
const std::array<MeasureFamily, metric::kNumMeasures>& MeasureFamilies();

struct CountFamily {
  metric::Count count;
  const char* name;
  const char* help;
};

const std::array<CountFamily, metric::kNumCounts>& CountFamilies();

// Buckets: the upper bounds of the histograms, which operators may choose: where a promise is kept
// or broken there should be a bound.

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

#endif  // BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_
