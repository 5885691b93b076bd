#include "server/serving/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/serving/wire_status.h"

namespace beamwright::serving {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;

Family<Counter>& MakeCounter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Histogram>& MakeHistogram(prometheus::Registry& registry, const char* name,
                                 const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// All that RejectionReason answers. They are there at 0 from the start: the first increment of a
// series that begins with it is no increase to those who watch.
constexpr const char* kRejections[] = {
    "invalid",         "unknown_model",        "unauthenticated", "permission_denied",
    "too_slow",        "too_many_connections", "queue_full",      "tenant_rate",
    "tenant_quota",    "would_miss_deadline",  "out_of_memory",   "too_large",
    "reply_too_large", "model_quarantined",    "draining"};

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(WireCode(code)); }

// What became of the work on a source, by the code of its answer: the labels of row steps.
enum Outcome { kDelivered, kCancelled, kDeadline, kFailed, kNumOutcomes };
constexpr std::array<const char*, kNumOutcomes> kOutcomes = {"delivered", "cancelled", "deadline",
                                                             "failed"};

Outcome OutcomeOf(absl::StatusCode code) {
  return code == absl::StatusCode::kOk                 ? kDelivered
         : code == absl::StatusCode::kCancelled        ? kCancelled
         : code == absl::StatusCode::kDeadlineExceeded ? kDeadline
                                                       : kFailed;
}

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
  Histogram& call_seconds;
  Histogram& compute_seconds;
  Histogram& first_token_seconds;
  Histogram& encode_seconds;
  Histogram& step_seconds;
  Histogram& step_rows;
  Histogram& source_tokens;
  Histogram& target_tokens;
  Histogram& output_token_seconds;
  Histogram& topk_seconds;
  Histogram& cancel_seconds;
  Histogram& cancel_steps;
  Counter& decoded;
  Counter& eos;
  Counter& cut;
  Counter& overdue;
  Counter& abandoned;
  std::array<Counter*, kNumOutcomes> row_steps;
  std::array<Histogram*, engine::kLowestPriority> queue_seconds;  // by priority
  absl::Mutex mutex;
  // By method and code; made when they are first counted.
  std::map<std::pair<Method, absl::StatusCode>, Counter*> calls ABSL_GUARDED_BY(mutex);
  // Likewise; by code, which is not OK.
  std::map<absl::StatusCode, Counter*> failed_sources ABSL_GUARDED_BY(mutex);
  ModelTotals totals ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics(Buckets buckets)
    : buckets_(std::move(buckets)),
      calls_(MakeCounter(registry_, "beamwright_requests_total", "Calls answered, by status code")),
      rejections_(MakeCounter(registry_, "beamwright_requests_rejected_total",
                              "Calls and sources of calls that were refused, by reason")),
      sources_(MakeCounter(registry_, "beamwright_sources_total",
                           "Sources of calls, by the status code of each")),
      finished_(MakeCounter(registry_, "beamwright_finished_total",
                            "Best hypotheses, by what ended them")),
      loads_(MakeCounter(registry_, "beamwright_model_loads_total", "Models loaded, by result")),
      row_steps_(MakeCounter(registry_, "beamwright_row_steps_total",
                             "Hypotheses advanced by one step, by what became of their source")),
      call_seconds_(MakeHistogram(registry_, "beamwright_request_duration_seconds",
                                  "From the arrival of a call to its answer")),
      queue_seconds_(MakeHistogram(registry_, "beamwright_queue_duration_seconds",
                                   "From the admission of a source to its first work")),
      compute_seconds_(MakeHistogram(registry_, "beamwright_compute_duration_seconds",
                                     "From the first work on a source to its answer")),
      first_token_seconds_(MakeHistogram(
          registry_, "beamwright_first_token_duration_seconds",
          "Streams: from the admission of a source to the first token that can't change")),
      encode_seconds_(MakeHistogram(registry_, "beamwright_encode_duration_seconds",
                                    "Encoding of the sources that were admitted together")),
      step_seconds_(MakeHistogram(registry_, "beamwright_step_duration_seconds",
                                  "One step of all running requests of a model")),
      step_rows_(MakeHistogram(registry_, "beamwright_step_batch_rows",
                               "Rows that running requests hold at a step")),
      source_tokens_(MakeHistogram(registry_, "beamwright_source_tokens", "Tokens of a source")),
      target_tokens_(MakeHistogram(registry_, "beamwright_target_tokens",
                                   "Tokens of the best hypothesis of a source")),
      load_seconds_(MakeHistogram(registry_, "beamwright_model_load_seconds",
                                  "Loading, compiling and warming of a model")),
      output_token_seconds_(
          MakeHistogram(registry_, "beamwright_time_per_output_token_seconds",
                        "Computing a source, divided by the tokens of its best hypothesis")),
      topk_seconds_(MakeHistogram(registry_, "beamwright_topk_duration_seconds",
                                  "Of a step: finding the best tokens of each row")),
      cancel_seconds_(MakeHistogram(registry_, "beamwright_cancel_release_seconds",
                                    "From the cancel of a running source to its rows being free")),
      cancel_steps_(MakeHistogram(registry_, "beamwright_cancel_release_steps",
                                  "Steps that it took part in after that; never more than 1")),
      last_load_(prometheus::BuildGauge()
                     .Name("beamwright_last_load_success_timestamp_seconds")
                     .Help("When a version of a model was last loaded, in seconds from 1970")
                     .Register(registry_)) {
  for (const char* reason : kRejections) {
    rejections_.Add({{"reason", reason}});
  }
}

Metrics::~Metrics() = default;

Histogram& Metrics::Add(Family<Histogram>& family, const Labels& labels) {
  return family.Add(labels, buckets_.Of(family.GetName()));
}

Metrics::PerModel& Metrics::Of(const engine::DecodeModel& model) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<PerModel>& entry = models_[{model.name(), model.version()}];
  if (entry == nullptr) {
    const Labels labels = {{"model", model.name()}, {"version", model.version()}};
    entry.reset(new PerModel{labels,
                             Add(call_seconds_, labels),
                             Add(compute_seconds_, labels),
                             Add(first_token_seconds_, labels),
                             Add(encode_seconds_, labels),
                             Add(step_seconds_, labels),
                             Add(step_rows_, labels),
                             Add(source_tokens_, labels),
                             Add(target_tokens_, labels),
                             Add(output_token_seconds_, labels),
                             Add(topk_seconds_, labels),
                             Add(cancel_seconds_, labels),
                             Add(cancel_steps_, labels),
                             sources_.Add(With(labels, "code", "OK")),
                             finished_.Add(With(labels, "reason", "eos")),
                             finished_.Add(With(labels, "reason", "max_length")),
                             finished_.Add(With(labels, "reason", "deadline")),
                             finished_.Add(With(labels, "reason", "shutdown")),
                             {},
                             {},
                             {},
                             {},
                             {},
                             {}});
    for (size_t i = 0; i < kOutcomes.size(); ++i) {
      entry->row_steps[i] = &row_steps_.Add(With(labels, "outcome", kOutcomes[i]));
    }
    for (size_t i = 0; i < entry->queue_seconds.size(); ++i) {
      entry->queue_seconds[i] = &Add(
          queue_seconds_,
          With(labels, "priority", absl::StrCat(engine::kHighestPriority + static_cast<int>(i))));
    }
  }
  return *entry;
}

prometheus::Counter* Metrics::RejectionCounter(const absl::Status& status) {
  const std::string reason = RejectionReason(status);
  return reason.empty() ? nullptr : &rejections_.Add({{"reason", reason}});
}

void Metrics::CountRejection(const absl::Status& status) {
  if (Counter* counter = RejectionCounter(status); counter != nullptr) {
    counter->Increment();
  }
}

void Metrics::CountCall(Method method, const engine::DecodeModel* model, absl::StatusCode code,
                        absl::Duration took) {
  ++calls_by_code_[static_cast<size_t>(WireCode(code)) % calls_by_code_.size()];
  const auto labels = [&](std::string name, std::string version) {
    Labels all = {{"protocol", std::string(ProtocolOf(method))},
                  {"method", std::string(NameOf(method))}};
    all["code"] = CodeName(code);
    all["model"] = std::move(name);
    all["version"] = std::move(version);
    return all;
  };
  if (model == nullptr) {
    // The name that a client sent is no label: anyone could make as many as they please.
    calls_.Add(labels("", "")).Increment();
    return;
  }
  PerModel& of = Of(*model);
  of.call_seconds.Observe(absl::ToDoubleSeconds(took));
  absl::MutexLock lock(&of.mutex);
  Counter*& counter = of.calls[{method, code}];
  if (counter == nullptr) {
    counter = &calls_.Add(labels(model->name(), model->version()));
    // There at 0 before the first failure, as rejections are.
    Labels failures = labels(model->name(), model->version());
    failures["code"] = CodeName(absl::StatusCode::kInternal);
    calls_.Add(failures);
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
    of.compute_seconds.Observe(decoded.compute_ms() / 1000);
    of.source_tokens.Observe(decoded.source_length());
    if (decoded.hypotheses_size() > 0) {
      const v1::Hypothesis& best = decoded.hypotheses(0);
      of.target_tokens.Observe(best.tokens_size());
      of.output_token_seconds.Observe(decoded.compute_ms() / 1000 /
                                      std::max(best.tokens_size(), 1));
      (best.finish_reason() == v1::FINISH_REASON_EOS        ? of.eos
       : best.finish_reason() == v1::FINISH_REASON_DEADLINE ? of.overdue
       : best.finish_reason() == v1::FINISH_REASON_SHUTDOWN ? of.abandoned
                                                            : of.cut)
          .Increment();
    }
    if (decoded.first_token_ms() > 0) {
      of.first_token_seconds.Observe(decoded.first_token_ms() / 1000);
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
      counter = &sources_.Add(With(of.labels, "code", CodeName(code)));
    }
    counter->Increment();
  }
  absl::MutexLock lock(&refusal_mutex_);
  if (last_refusal_counter_ == nullptr || !Same(last_refusal_, error)) {
    last_refusal_ = error;
    last_refusal_counter_ = RejectionCounter(FromRpcStatus(error));
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
    sources_.Add(With(of.labels, "code", "OK")).Increment();
    of.compute_seconds.Observe(result.scored().compute_ms() / 1000);
    of.source_tokens.Observe(result.scored().source_length());
  }
}

void Metrics::CountLoad(const std::string& model, bool loaded, absl::Duration took) {
  Counter& good = loads_.Add({{"model", model}, {"result", "success"}});
  Counter& bad = loads_.Add({{"model", model}, {"result", "failure"}});
  (loaded ? good : bad).Increment();
  if (loaded) {
    Add(load_seconds_, {{"model", model}}).Observe(absl::ToDoubleSeconds(took));
    last_load_.Add({{"model", model}}).SetToCurrentTime();
  }
}

void Metrics::OnEncode(const engine::DecodeModel& model, int /*num_sources*/,
                       int64_t /*num_positions*/, absl::Duration took) {
  Of(model).encode_seconds.Observe(absl::ToDoubleSeconds(took));
}

void Metrics::OnCancelled(const engine::DecodeModel& model, int steps, absl::Duration after) {
  PerModel& of = Of(model);
  of.cancel_seconds.Observe(absl::ToDoubleSeconds(after));
  of.cancel_steps.Observe(steps);
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
  of.step_seconds.Observe(absl::ToDoubleSeconds(facts.took));
  of.topk_seconds.Observe(absl::ToDoubleSeconds(facts.selection));
  of.step_rows.Observe(facts.num_rows);
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
    const int http = HttpCode(static_cast<absl::StatusCode>(code));
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

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  absl::MutexLock lock(&collect_mutex_);
  for (const prometheus::Collectable* collectable : collectables_) {
    for (prometheus::MetricFamily& family : collectable->Collect()) {
      families.push_back(std::move(family));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace beamwright::serving
