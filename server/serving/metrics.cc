// Metrics: counters and histograms of Prometheus. Families are listed once (CountFamilies,
// MeasureFamilies), with name, help and labels; this file makes their series and counts into them.
//
// 1. Of(model): the series of a model and version, made when it is first counted and then used
//    without a lookup of labels (PerModel). Series that may stay at 0 are made too: for Prometheus
//    a series that begins with 1 shows no increase.
// 2. CountCall, for each call of any protocol; CountSources, for each source of an answer: decoded
//    ones with their times and tokens, failed ones by code (CountFault).
// 3. The engine's events (OnEncode, OnStep, OnCancelled, OnEnd) go into the same series.
// 4. Text writes everything, together with the collectables that others have added (gauges of load
//    and memory).
//
// Labels never hold text of a client: names of models that are not served are counted without a
// name, or a client could make as many series as it likes.
#include "server/serving/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/status/wire_status.h"
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

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;

// All results of RejectionReason. Their series begin at 0: Prometheus sees no increase in a series
// that begins with 1.
constexpr const char* kRejectionReasons[] = {
    "invalid",         "unknown_model",        "unauthenticated", "permission_denied",
    "too_slow",        "too_many_connections", "queue_full",      "tenant_rate",
    "tenant_quota",    "would_miss_deadline",  "out_of_memory",   "too_large",
    "reply_too_large", "model_quarantined",    "draining"};

std::string CodeName(absl::StatusCode code) {
  return absl::StatusCodeToString(status::WireCode(code));
}

// The outcome of a source by the code of its answer: the labels of row steps.
enum Outcome { kDelivered, kCancelled, kDeadline, kFailed, kNumOutcomes };
constexpr std::array<const char*, kNumOutcomes> kOutcomes = {"delivered", "cancelled", "deadline",
                                                             "failed"};

Outcome OutcomeOf(absl::StatusCode code) {
  return code == absl::StatusCode::kOk                 ? kDelivered
         : code == absl::StatusCode::kCancelled        ? kCancelled
         : code == absl::StatusCode::kDeadlineExceeded ? kDeadline
                                                       : kFailed;
}

// The reason for which the best hypothesis ended, as the label of counted answers.
constexpr std::array<std::pair<v1::FinishReason, const char*>, 6> kFinishReasons = {{
    {v1::FINISH_REASON_EOS, "eos"},
    {v1::FINISH_REASON_LENGTH, "max_length"},
    {v1::FINISH_REASON_DEADLINE, "deadline"},
    {v1::FINISH_REASON_SHUTDOWN, "shutdown"},
    {v1::FINISH_REASON_END_OF_SOURCE, "end_of_source"},
    {v1::FINISH_REASON_STOP, "stop_string"},
}};

Labels With(Labels labels, const char* name, std::string value) {
  labels[name] = std::move(value);
  return labels;
}

bool Same(const google::rpc::Status& a, const google::rpc::Status& b) {
  return a.code() == b.code() && a.message() == b.message() &&
         std::equal(a.details().begin(), a.details().end(), b.details().begin(), b.details().end(),
                    [](const auto& one, const auto& other) {
                      return one.value() == other.value() && one.type_url() == other.type_url();
                    });
}

}  // namespace

struct Metrics::PerModel {
  Labels labels;
  std::array<Histogram*, metric::kNumMeasures> measures{};        // null: kept otherwise
  std::array<Histogram*, engine::kLowestPriority> queue_seconds;  // by priority
  Counter& decoded;
  std::array<Counter*, kFinishReasons.size()> finished;  // by their order there
  std::array<Counter*, kNumOutcomes> row_steps;
  absl::Mutex mutex;
  // By method and code; made when they are first counted.
  std::map<std::pair<Method, absl::StatusCode>, Counter*> calls ABSL_GUARDED_BY(mutex);
  // By code, which is not OK.
  std::map<absl::StatusCode, Counter*> failed_sources ABSL_GUARDED_BY(mutex);
  ModelTotals totals ABSL_GUARDED_BY(mutex);

  void Observe(metric::Measure measure, double value) { measures[measure]->Observe(value); }
};

Metrics::Metrics(Buckets buckets)
    : buckets_(std::move(buckets)),
      last_load_(prometheus::BuildGauge()
                     .Name("beamwright_last_load_success_timestamp_seconds")
                     .Help("When a version of a model was last loaded, in seconds from 1970")
                     .Register(registry_)) {
  for (const CountFamily& family : CountFamilies()) {
    counts_[family.count] =
        &prometheus::BuildCounter().Name(family.name).Help(family.help).Register(registry_);
  }
  for (const MeasureFamily& family : MeasureFamilies()) {
    measures_[family.measure] =
        &prometheus::BuildHistogram().Name(family.name).Help(family.help).Register(registry_);
  }
  for (const char* reason : kRejectionReasons) {
    Add(metric::kRejections, {{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

Counter& Metrics::Add(metric::Count count, const Labels& labels) {
  return counts_[count]->Add(labels);
}

Histogram& Metrics::Add(metric::Measure measure, const Labels& labels) {
  Family<Histogram>& family = *measures_[measure];
  return family.Add(labels, buckets_.Of(family.GetName()));
}

Metrics::PerModel& Metrics::Of(const engine::DecodeModel& model) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<PerModel>& entry = models_[{model.name(), model.version()}];
  if (entry == nullptr) {
    const Labels labels = {{"model", model.name()}, {"version", model.version()}};
    entry.reset(new PerModel{
        labels, {}, {}, Add(metric::kSources, With(labels, "code", "OK")), {}, {}, {}, {}, {}, {}});
    for (const MeasureFamily& family : MeasureFamilies()) {
      if (family.measure != metric::kQueueSeconds && family.measure != metric::kLoadSeconds) {
        entry->measures[family.measure] = &Add(family.measure, labels);
      }
    }
    for (size_t i = 0; i < kFinishReasons.size(); ++i) {
      entry->finished[i] =
          &Add(metric::kFinished, With(labels, "reason", kFinishReasons[i].second));
    }
    for (size_t i = 0; i < kOutcomes.size(); ++i) {
      entry->row_steps[i] = &Add(metric::kRowSteps, With(labels, "outcome", kOutcomes[i]));
    }
    for (size_t i = 0; i < entry->queue_seconds.size(); ++i) {
      entry->queue_seconds[i] = &Add(
          metric::kQueueSeconds,
          With(labels, "priority", absl::StrCat(engine::kHighestPriority + static_cast<int>(i))));
    }
  }
  return *entry;
}

prometheus::Counter* Metrics::RejectionCounter(const absl::Status& status) {
  const std::string reason = RejectionReason(status);
  return reason.empty() ? nullptr : &Add(metric::kRejections, {{"reason", reason}});
}

void Metrics::CountRejection(const absl::Status& status) {
  if (Counter* counter = RejectionCounter(status); counter != nullptr) {
    counter->Increment();
  }
}

void Metrics::CountCall(Method method, const engine::DecodeModel* model, absl::StatusCode code,
                        absl::Duration took) {
  ++calls_by_code_[static_cast<size_t>(status::WireCode(code)) % calls_by_code_.size()];
  const auto labels = [&](std::string name, std::string version) {
    Labels all = {{"protocol", std::string(ProtocolOf(method))},
                  {"method", std::string(NameOf(method))}};
    all["code"] = CodeName(code);
    all["model"] = std::move(name);
    all["version"] = std::move(version);
    return all;
  };
  if (model == nullptr) {
    // The name that a client sent is not a label: clients could make any number of series.
    Add(metric::kCalls, labels("", "")).Increment();
    return;
  }
  PerModel& of = Of(*model);
  of.Observe(metric::kRequestSeconds, absl::ToDoubleSeconds(took));
  absl::MutexLock lock(&of.mutex);
  Counter*& counter = of.calls[{method, code}];
  if (counter == nullptr) {
    counter = &Add(metric::kCalls, labels(model->name(), model->version()));
    // The series of failures begins at 0, as those of rejections do.
    Labels failures = labels(model->name(), model->version());
    failures["code"] = CodeName(absl::StatusCode::kInternal);
    Add(metric::kCalls, failures);
  }
  counter->Increment();
  if (code == absl::StatusCode::kOk) {
    ++of.totals.calls_succeeded;
    of.totals.success_time += took;
  } else {
    ++of.totals.calls_failed;
    of.totals.failure_time += took;
  }
}

void Metrics::CountSources(const engine::DecodeModel& model, const v1::DecodeResponse& response) {
  PerModel& of = Of(model);
  int num_decoded = 0;
  double queue_ms = 0;
  double compute_ms = 0;
  for (const v1::Result& result : response.results()) {
    if (!result.has_decoded()) {
      CountFault(of, result.error());
      continue;
    }
    const v1::Decoded& decoded = result.decoded();
    ++num_decoded;
    queue_ms += decoded.queue_ms();
    compute_ms += decoded.compute_ms();
    of.Observe(metric::kComputeSeconds, decoded.compute_ms() / 1000);
    of.Observe(metric::kSourceTokens, decoded.source_length());
    if (decoded.hypotheses_size() > 0) {
      const v1::Hypothesis& best = decoded.hypotheses(0);
      of.Observe(metric::kTargetTokens, best.tokens_size());
      of.Observe(metric::kOutputTokenSeconds,
                 decoded.compute_ms() / 1000 / std::max(best.tokens_size(), 1));
      for (size_t i = 0; i < kFinishReasons.size(); ++i) {
        if (kFinishReasons[i].first == best.finish_reason()) {
          of.finished[i]->Increment();
        }
      }
    }
    if (decoded.first_token_ms() > 0) {
      of.Observe(metric::kFirstTokenSeconds, decoded.first_token_ms() / 1000);
    }
  }
  if (num_decoded == 0) {
    return;
  }
  of.decoded.Increment(num_decoded);
  absl::MutexLock lock(&of.mutex);
  of.totals.sources_decoded += num_decoded;
  of.totals.queue_time += absl::Milliseconds(queue_ms);
  of.totals.compute_time += absl::Milliseconds(compute_ms);
  of.totals.last_decoded = absl::Now();
}

void Metrics::CountFault(PerModel& of, const google::rpc::Status& error) {
  const auto code = static_cast<absl::StatusCode>(error.code());
  {
    absl::MutexLock lock(&of.mutex);
    Counter*& counter = of.failed_sources[code];
    if (counter == nullptr) {
      counter = &Add(metric::kSources, With(of.labels, "code", CodeName(code)));
    }
    counter->Increment();
  }
  absl::MutexLock lock(&refusal_mutex_);
  if (last_refusal_counter_ == nullptr || !Same(last_refusal_, error)) {
    last_refusal_ = error;
    last_refusal_counter_ = RejectionCounter(status::FromRpcStatus(error));
  }
  if (last_refusal_counter_ != nullptr) {
    last_refusal_counter_->Increment();
  }
}

void Metrics::CountScored(const engine::DecodeModel& model, const v1::ScoreResponse& response) {
  PerModel& of = Of(model);
  for (const v1::ScoreResult& result : response.results()) {
    if (!result.has_scored()) {
      CountFault(of, result.error());
      continue;
    }
    Add(metric::kSources, With(of.labels, "code", "OK")).Increment();
    of.Observe(metric::kComputeSeconds, result.scored().compute_ms() / 1000);
    of.Observe(metric::kSourceTokens, result.scored().source_length());
  }
}

void Metrics::CountLoad(const std::string& model, bool loaded, absl::Duration took) {
  Counter& good = Add(metric::kLoads, {{"model", model}, {"result", "success"}});
  Counter& bad = Add(metric::kLoads, {{"model", model}, {"result", "failure"}});
  (loaded ? good : bad).Increment();
  if (loaded) {
    Add(metric::kLoadSeconds, {{"model", model}}).Observe(absl::ToDoubleSeconds(took));
    last_load_.Add({{"model", model}}).SetToCurrentTime();
  }
}

void Metrics::CountEviction(const std::string& model) {
  Add(metric::kEvictions, {{"model", model}}).Increment();
}

void Metrics::OnEncode(const engine::DecodeModel& model, int /*num_sources*/,
                       int64_t /*num_positions*/, absl::Duration took) {
  Of(model).Observe(metric::kEncodeSeconds, absl::ToDoubleSeconds(took));
}

void Metrics::OnCancelled(const engine::DecodeModel& model, int steps, absl::Duration after) {
  PerModel& of = Of(model);
  of.Observe(metric::kCancelSeconds, absl::ToDoubleSeconds(after));
  of.Observe(metric::kCancelSteps, steps);
}

void Metrics::OnEnd(const engine::DecodeModel& model, const engine::SourceFacts& facts) {
  PerModel& of = Of(model);
  const int priority =
      std::clamp(facts.priority, engine::kHighestPriority, engine::kLowestPriority);
  of.queue_seconds[static_cast<size_t>(priority - engine::kHighestPriority)]->Observe(
      absl::ToDoubleSeconds(facts.waited));
  of.row_steps[OutcomeOf(facts.code)]->Increment(static_cast<double>(facts.row_steps));
}

void Metrics::OnStep(const engine::DecodeModel& model, const engine::StepFacts& facts) {
  PerModel& of = Of(model);
  of.Observe(metric::kStepSeconds, absl::ToDoubleSeconds(facts.took));
  of.Observe(metric::kTopkSeconds, absl::ToDoubleSeconds(facts.selection));
  of.Observe(metric::kStepRows, facts.num_rows);
  absl::MutexLock lock(&of.mutex);
  ++of.totals.steps;
}

ModelTotals Metrics::Totals(const engine::DecodeModel& model) {
  PerModel& of = Of(model);
  absl::MutexLock lock(&of.mutex);
  return of.totals;
}

Metrics::CallCounts Metrics::Counts() const {
  CallCounts counts;
  for (size_t code = 0; code < calls_by_code_.size(); ++code) {
    const int64_t count = calls_by_code_[code];
    counts.all += count;
    const int http = status::HttpCode(static_cast<absl::StatusCode>(code));
    counts.errors += http >= 500 || http == 429 ? count : 0;
  }
  return counts;
}

std::string Metrics::CallsByCode() const {
  std::vector<std::string> counts;
  for (size_t code = 0; code < calls_by_code_.size(); ++code) {
    if (const int64_t count = calls_by_code_[code]; count > 0) {
      counts.push_back(absl::StrCat(CodeName(static_cast<absl::StatusCode>(code)), " ", count));
    }
  }
  return counts.empty() ? "none" : absl::StrJoin(counts, ", ");
}

void Metrics::Add(const prometheus::Collectable* collectable) {
  absl::MutexLock lock(&collect_mutex_);
  collectables_.insert(collectable);
}

void Metrics::Remove(const prometheus::Collectable* collectable) {
  absl::MutexLock lock(&collect_mutex_);
  collectables_.erase(collectable);
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  absl::MutexLock lock(&collect_mutex_);
  for (const prometheus::Collectable* collectable : collectables_) {
    for (prometheus::MetricFamily& family : collectable->Collect()) {
      families.push_back(std::move(family));
    }
  }
  return families;
}

std::string Metrics::Text() const { return prometheus::TextSerializer().Serialize(Collect()); }

}  // namespace beamwright::serving
