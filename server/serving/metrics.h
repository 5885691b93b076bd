// Metrics: what the server counts, as Prometheus text and as the statistics of a model that the
// Open Inference Protocol asks for. docs/operations.md lists every metric.
#ifndef BEAMWRIGHT_SERVER_SERVING_METRICS_H_
#define BEAMWRIGHT_SERVER_SERVING_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "beamwright/v1/decode.pb.h"
#include "include/beamwright/engine.h"
#include "server/serving/caller.h"

namespace beamwright::serving {

// Every family of metrics that Metrics counts itself. A new one is an enumerator here, its line in
// metrics.cc, which the compiler asks for, and a line where it happens.

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

// Totals of one version of a model since the start, as they stand at one moment.
struct ModelTotals {
  int64_t calls_succeeded = 0;
  int64_t calls_failed = 0;
  absl::Duration success_time;  // of all calls together
  absl::Duration failure_time;
  int64_t sources_decoded = 0;
  absl::Duration queue_time;  // of all sources together
  absl::Duration compute_time;
  int64_t steps = 0;  // each over the rows of all running requests
  absl::Time last_decoded = absl::UnixEpoch();
};

// Thread-safe.
class Metrics : public engine::EngineObserver {
 public:
  explicit Metrics(Buckets buckets = {});
  ~Metrics() override;

  // A call that is answered. `model` is null if the call names none that is served.
  void CountCall(Method method, const engine::DecodeModel* model, absl::StatusCode code,
                 absl::Duration took);
  // A call that was refused before any of its sources was begun.
  void CountRejection(const absl::Status& status);
  // The sources of a call; those that were refused are rejections too.
  void CountSources(const engine::DecodeModel& model, const v1::DecodeResponse& response);
  void CountScored(const engine::DecodeModel& model, const v1::ScoreResponse& response);
  void CountLoad(const std::string& model, bool loaded, absl::Duration took);
  void CountEviction(const std::string& model);

  void OnEncode(const engine::DecodeModel& model, int num_sources, int64_t num_positions,
                absl::Duration took) override;
  void OnStep(const engine::DecodeModel& model, const engine::StepFacts& facts) override;
  void OnCancelled(const engine::DecodeModel& model, int steps, absl::Duration after) override;
  void OnEnd(const engine::DecodeModel& model, const engine::SourceFacts& facts) override;

  ModelTotals Totals(const engine::DecodeModel& model);
  struct CallCounts {
    int64_t all = 0;
    int64_t errors = 0;  // of the server's making: without client errors and cancelled calls
  };
  CallCounts Counts() const;
  // All calls that were answered, "OK 12, UNAVAILABLE 3"; "none" before the first.
  std::string CallsByCode() const;

  // Adds metrics that are read when they are asked for. `collectable` must live until Remove, which
  // waits for a reader.
  void Add(const prometheus::Collectable* collectable);
  void Remove(const prometheus::Collectable* collectable);
  // All metrics as they are now, and in Prometheus' text format.
  std::vector<prometheus::MetricFamily> Collect() const;
  std::string Text() const;

 private:
  struct PerModel;
  PerModel& Of(const engine::DecodeModel& model);
  prometheus::Counter& Add(metric::Count count, const prometheus::Labels& labels);
  prometheus::Histogram& Add(metric::Measure measure, const prometheus::Labels& labels);
  // A source that failed.
  void CountFault(PerModel& of, const google::rpc::Status& error);
  // Null if it was no refusal.
  prometheus::Counter* RejectionCounter(const absl::Status& status);

  const Buckets buckets_;
  prometheus::Registry registry_;
  std::array<prometheus::Family<prometheus::Counter>*, metric::kNumCounts> counts_{};
  std::array<prometheus::Family<prometheus::Histogram>*, metric::kNumMeasures> measures_{};
  prometheus::Family<prometheus::Gauge>& last_load_;
  // By code; gRPC has 17.
  std::array<std::atomic<int64_t>, 17> calls_by_code_{};
  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<PerModel>> models_
      ABSL_GUARDED_BY(mutex_);
  // Apart from mutex_: reading them takes its time, and the engine counts steps meanwhile.
  mutable absl::Mutex collect_mutex_;
  std::set<const prometheus::Collectable*> collectables_ ABSL_GUARDED_BY(collect_mutex_);

  // The error of the source that was refused last, and its counter. A full queue refuses thousands
  // a second, all in the same words: they are read once.
  absl::Mutex refusal_mutex_;
  google::rpc::Status last_refusal_ ABSL_GUARDED_BY(refusal_mutex_);
  prometheus::Counter* last_refusal_counter_ ABSL_GUARDED_BY(refusal_mutex_) = nullptr;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_METRICS_H_
