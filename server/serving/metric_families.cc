#include "server/serving/metric_families.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright::serving {
namespace {

using Bounds = std::vector<double>;

// Seconds: from a word without delay to a document behind a full queue.
Bounds Calls() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
          0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    100};
}

Bounds Steps() {
  return {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 1};
}

// Rows and tokens: powers of two.
Bounds Powers() { return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}; }

}  // namespace

const std::array<MeasureFamily, metric::kNumMeasures>& MeasureFamilies() {
  static const auto* const families = new auto(std::to_array<MeasureFamily>(
      {{metric::kRequestSeconds, "beamwright_request_duration_seconds",
        "From the arrival of a call to its answer", Calls()},
       {metric::kQueueSeconds, "beamwright_queue_duration_seconds",
        "From the admission of a source to its first work", Calls()},
       {metric::kComputeSeconds, "beamwright_compute_duration_seconds",
        "From the first work on a source to its answer", Calls()},
       {metric::kFirstTokenSeconds, "beamwright_first_token_duration_seconds",
        "Streams: from the admission of a source to the first token that can't change", Calls()},
       {metric::kEncodeSeconds, "beamwright_encode_duration_seconds",
        "Encoding of the sources that were admitted together", Steps()},
       {metric::kStepSeconds, "beamwright_step_duration_seconds",
        "One step of all running requests of a model", Steps()},
       {metric::kStepRows, "beamwright_step_batch_rows",
        "Rows that running requests hold at a step", Powers()},
       {metric::kSourceTokens, "beamwright_source_tokens", "Tokens of a source", Powers()},
       {metric::kTargetTokens, "beamwright_target_tokens",
        "Tokens of the best hypothesis of a source", Powers()},
       {metric::kOutputTokenSeconds, "beamwright_time_per_output_token_seconds",
        "Computing a source, divided by the tokens of its best hypothesis", Steps()},
       {metric::kTopkSeconds, "beamwright_topk_duration_seconds",
        "Of a step: finding the best tokens of each row", Steps()},
       {metric::kCancelSeconds, "beamwright_cancel_release_seconds",
        "From the cancel of a running source to its rows being free", Calls()},
       {metric::kCancelSteps, "beamwright_cancel_release_steps",
        "Steps that it took part in after that; never more than 1", Bounds{0, 1}},
       {metric::kLoadSeconds, "beamwright_model_load_seconds",
        "Loading, compiling and warming of a model",
        Bounds{0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}}}));
  return *families;
}

const std::array<CountFamily, metric::kNumCounts>& CountFamilies() {
  static constexpr auto kFamilies = std::to_array<CountFamily>(
      {{metric::kCalls, "beamwright_requests_total", "Calls answered, by status code"},
       {metric::kRejections, "beamwright_requests_rejected_total",
        "Calls and sources of calls that were refused, by reason"},
       {metric::kSources, "beamwright_sources_total",
        "Sources of calls, by the status code of each"},
       {metric::kFinished, "beamwright_finished_total", "Best hypotheses, by what ended them"},
       {metric::kLoads, "beamwright_model_loads_total", "Models loaded, by result"},
       {metric::kEvictions, "beamwright_model_evictions_total",
        "Models that left memory for another one (--model-control on-demand)"},
       {metric::kRowSteps, "beamwright_row_steps_total",
        "Hypotheses advanced by one step, by what became of their source"}});
  return kFamilies;
}

Buckets::Buckets() {
  for (const MeasureFamily& family : MeasureFamilies()) {
    bounds_[family.name] = family.bounds;
  }
}

absl::Status Buckets::Set(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto family = bounds_.find(parts.first);
  if (family == bounds_.end()) {
    return Invalid("'", parts.first, "' is not a histogram; there are ",
                   absl::StrJoin(bounds_, ", ", [](std::string* out, const auto& entry) {
                     out->append(entry.first);
                   }));
  }
  std::vector<double> bounds;
  for (const absl::string_view word : absl::StrSplit(parts.second, ',')) {
    double bound = 0;
    if (!absl::SimpleAtod(word, &bound) || !std::isfinite(bound)) {
      return Invalid(parts.first, ": '", word, "' is not a finite number");
    }
    if (!bounds.empty() && bound <= bounds.back()) {
      return Invalid(parts.first, ": ", word, " does not come after ", bounds.back(),
                     "; bounds ascend");
    }
    bounds.push_back(bound);
  }
  if (bounds.size() > kMaxBounds) {
    return Invalid(parts.first, ": ", bounds.size(), " bounds; at most ", kMaxBounds);
  }
  family->second = std::move(bounds);
  return absl::OkStatus();
}

}  // namespace beamwright::serving
