// Every family of metrics that Metrics counts itself. A new one is an enumerator here, its line in
// metric_families.cc, which the compiler asks for, and a line where it happens.
#ifndef BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_
#define BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_

#include <array>
#include <string>
#include <vector>

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

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_METRIC_FAMILIES_H_
