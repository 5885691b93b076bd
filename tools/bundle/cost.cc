// Measures decoding in one process, without a server: BenchDecode keeps `concurrency` requests in
// flight and counts tokens; Cost prints what a request holds and takes, as `beamwright capacity`
// reads it.
//
// Traffic counts from the time when the first `concurrency` requests are answered, when all
// requests are at different steps, as in a server under load, until the time is over and a multiple
// of `concurrency` answers have been counted. AddProfile adds what the engine measured: the length
// of steps and the share of each phase.
//
// Sources are lines of a file, features of an .npz file, or random ids of a fixed seed.
#include "tools/bundle/cost.h"

#include <algorithm>
#include <fstream>
#include <random>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/repository.h"
#include "engine/request/request.h"
#include "ops/base/cpu.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "ops/numpy/npz.h"

namespace beamwright::tools {

namespace {

// The requests in flight, and what their answers add up to.
class Traffic {
 public:
  Traffic(int concurrency, double seconds) : concurrency_(concurrency), seconds_(seconds) {}

  // Waits until another request may start. False: time to stop.
  bool Admit() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Traffic* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
          return self->stopped_ || self->in_flight_ < self->concurrency_;
        },
        this));
    in_flight_ += stopped_ ? 0 : 1;
    return !stopped_;
  }

  // With `concurrency` 4, answers 1 to 4 are not counted, and the clock starts anew with each of
  // them. From the 5th on tokens are added up. The run may end at answers 8, 12, 16 and so on, once
  // the time is over.
  void Answered(const absl::StatusOr<v1::Decoded>& decoded) {
    absl::MutexLock lock(&mutex_);
    --in_flight_;
    if (stopped_) {
      return;
    }
    if (!decoded.ok()) {
      status_ = decoded.status();
      stopped_ = true;
      return;
    }
    const absl::Time now = absl::Now();
    if (++answers_ <= concurrency_) {
      start_ = now;
      cpu_start_ = ProcessCpuSeconds();
      return;
    }
    tokens_ += decoded->hypotheses(0).tokens_size();
    const int64_t counted = answers_ - concurrency_;
    const double passed = absl::ToDoubleSeconds(now - start_);
    if (counted % concurrency_ == 0 && passed >= seconds_) {
      result_.sentences = counted;
      result_.tokens = tokens_;
      result_.seconds = passed;
      result_.cpu_seconds = ProcessCpuSeconds() - cpu_start_;
      stopped_ = true;
    }
  }

  // To be called when nothing is in flight any more.
  absl::StatusOr<DecodeResult> Result() {
    absl::MutexLock lock(&mutex_);
    BW_RETURN_IF_ERROR(status_);
    return result_;
  }

 private:
  const int concurrency_;
  const double seconds_;
  absl::Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time start_ ABSL_GUARDED_BY(mutex_);
  double cpu_start_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  DecodeResult result_ ABSL_GUARDED_BY(mutex_);
};

// Shares are of the time of the engine's first thread, 0 to 1, in the order of kPhaseNames; steps
// are in milliseconds.
void AddProfile(const StepProfile& profile, DecodeResult& result) {
  StepProfile::Clock::duration total{};
  for (const StepProfile::Clock::duration time : profile.times()) {
    total += time;
  }
  for (size_t i = 0; i < result.shares.size(); ++i) {
    result.shares[i] =
        static_cast<double>(profile.times()[i].count()) / static_cast<double>(total.count());
  }
  std::vector<double> steps;
  for (const StepProfile::Clock::duration step : profile.steps()) {
    steps.push_back(std::chrono::duration<double, std::milli>(step).count());
  }
  std::sort(steps.begin(), steps.end());
  result.steps = static_cast<int64_t>(steps.size());
  if (!steps.empty()) {
    result.step_ms_median = steps[steps.size() / 2];
    result.step_ms_p99 = steps[steps.size() * 99 / 100];
  }
}

}  // namespace

// Requests are started as fast as Traffic admits them, which is whenever one has been answered.
// max_rows is beyond what any case needs: nothing waits in the queue, so that the queue is not
// measured.
absl::StatusOr<DecodeResult> BenchDecode(const std::shared_ptr<const engine::DecodeModel>& model,
                                         const std::vector<v1::Source>& sources,
                                         const DecodeCase& bench_case) {
  StepProfile profile;
  Traffic traffic(bench_case.concurrency, bench_case.seconds);
  {
    engine::EngineOptions options;
    options.num_threads = bench_case.threads;
    options.num_streams = bench_case.streams;
    options.max_rows = 1 << 16;
    options.max_queue = bench_case.concurrency + 1;
    options.profile = &profile;
    BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                        engine::Engine::Start(options));
    for (size_t next = 0; traffic.Admit(); next = (next + 1) % sources.size()) {
      engine->Decode(
          model, sources[next], bench_case.options, {},
          [&](const absl::StatusOr<v1::Decoded>& decoded) { traffic.Answered(decoded); });
    }
  }  // the engine finishes what is in flight, and its thread ends
  BW_ASSIGN_OR_RETURN(DecodeResult result, traffic.Result());
  result.concurrency = bench_case.concurrency;
  result.threads = bench_case.threads;
  result.streams = bench_case.streams;
  AddProfile(profile, result);
  return result;
}

absl::StatusOr<std::vector<v1::Source>> ReadSources(const std::string& file) {
  std::ifstream in(file);
  if (!in.is_open()) {
    return absl::NotFoundError(absl::StrCat("cannot read '", file, "'"));
  }
  std::vector<v1::Source> sources;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) {
      sources.emplace_back().set_text(line);
    }
  }
  if (sources.empty()) {
    return Invalid("'", file, "' has no line that is not empty");
  }
  return sources;
}

absl::StatusOr<std::vector<v1::Source>> ReadFeatures(const std::string& file) {
  BW_ASSIGN_OR_RETURN(const ops::TensorMap arrays, ops::ReadNpz(file));
  std::vector<v1::Source> sources;
  for (const auto& [name, array] : arrays) {
    if (array.dtype() != ops::DType::kF32) {
      return Invalid("'", file, "': array '", name, "' is not f32");
    }
    v1::Tensor& features = *sources.emplace_back().mutable_features();
    features.set_dtype("f32");
    for (const int64_t extent : array.shape()) {
      features.add_shape(extent);
    }
    const absl::Span<const float> values = array.span<float>();
    features.set_data(values.data(), values.size() * sizeof(float));
  }
  return sources;
}

absl::StatusOr<std::vector<v1::Source>> RandomSources(const engine::DecodeModel& model, int count,
                                                      int shortest, int longest) {
  if (!model.has_encoder() && model.source().size() < 1) {
    return std::vector<v1::Source>(static_cast<size_t>(count));  // each begins anew
  }
  const int vocabulary = model.source().size();
  if (vocabulary < 1) {
    return Invalid("the model's source has no vocabulary to take random ids from");
  }
  std::mt19937 random(1);
  std::vector<v1::Source> sources(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const int length =
        shortest + static_cast<int>(random() % static_cast<uint32_t>(longest - shortest + 1));
    for (int position = 0; position < length; ++position) {
      sources[static_cast<size_t>(i)].mutable_ids()->add_ids(
          static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary)));
    }
  }
  return sources;
}

std::string ResultsText(const std::vector<DecodeResult>& results) {
  std::string text =
      "precision requests threads streams  tokens/s sentences/s cpu us/token  step ms     p99 |";
  for (const char* name : kPhaseNames) {
    absl::StrAppendFormat(&text, " %9s", name);
  }
  text += "\n";
  for (const DecodeResult& result : results) {
    absl::StrAppendFormat(&text, "%9s %8d %7d %7d %9.0f %11.1f %12.1f %8.3f %7.3f |",
                          result.precision, result.concurrency, result.threads, result.streams,
                          result.tokens_per_second(), result.sentences_per_second(),
                          result.cpu_us_per_token(), result.step_ms_median, result.step_ms_p99);
    for (const double share : result.shares) {
      absl::StrAppendFormat(&text, " %8.1f%%", 100 * share);
    }
    text += "\n";
  }
  return text;
}

std::string ResultsJson(const std::vector<DecodeResult>& results) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginArray();
  for (const DecodeResult& result : results) {
    json.BeginObject();
    json.Key("precision").String(result.precision);
    json.Key("concurrency").Int(result.concurrency).Key("threads").Int(result.threads);
    json.Key("streams").Int(result.streams);
    json.Key("sentences").Int(result.sentences).Key("tokens").Int(result.tokens);
    json.Key("seconds").Double(result.seconds);
    json.Key("cpu_seconds").Double(result.cpu_seconds);
    json.Key("tokens_per_second").Double(result.tokens_per_second());
    json.Key("sentences_per_second").Double(result.sentences_per_second());
    json.Key("steps").Int(result.steps);
    json.Key("step_ms_median").Double(result.step_ms_median);
    json.Key("step_ms_p99").Double(result.step_ms_p99);
    json.Key("shares").BeginObject();
    for (size_t i = 0; i < result.shares.size(); ++i) {
      json.Key(kPhaseNames[i]).Double(result.shares[i]);
    }
    json.EndObject().EndObject();
  }
  json.EndArray();
  return json.text() + "\n";
}

namespace {

using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

// The newest version of what is at the path.
absl::StatusOr<ModelPtr> CompileNewest(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const bundle::ModelFolder folder, bundle::FindModel(path));
  BW_RETURN_IF_ERROR(folder.listed);
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder.versions.front().path));
  return engine::DecodeModel::Compile(std::move(bundle));
}

struct RequestPrice {
  int rows = 0;
  // Held at most while it runs: the price that the server admits it by.
  int64_t bytes = 0;
};

// The dearest of the sources.
//
// What admission would charge: the request is made as the server makes it, and never run.
absl::StatusOr<RequestPrice> DearestPrice(const ModelPtr& model,
                                          const std::vector<v1::Source>& sources,
                                          const v1::DecodeOptions& options) {
  BW_ASSIGN_OR_RETURN(const auto resolved, engine::ResolveOptions(*model, options));
  RequestPrice price;
  for (const v1::Source& source : sources) {
    BW_ASSIGN_OR_RETURN(engine::PreparedSource prepared, engine::PrepareSource(*model, source));
    BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Request> request,
                        model->search().MakeRequest({}, model, std::move(prepared), *resolved, {}));
    price.rows = std::max(price.rows, request->beam_size);
    price.bytes = std::max(price.bytes, request->price_bytes);
  }
  return price;
}

// Rates are for each second of one core (CPU time, not time that passed), so that results of
// machines with different numbers of threads can be compared. The last line can be pasted into a
// shell.
std::string CostText(const RequestPrice& price, const std::vector<DecodeResult>& results) {
  std::string text = absl::StrFormat(
      "a request: %d rows, at most %d bytes while it runs\n\n"
      "in flight  requests/s a core  tokens/s a core  CPU ms a request\n",
      price.rows, price.bytes);
  std::string points;
  for (const DecodeResult& result : results) {
    const double per_second = static_cast<double>(result.sentences) / result.cpu_seconds;
    absl::StrAppendFormat(&text, "%9d %18.1f %16.0f %17.2f\n", result.concurrency, per_second,
                          static_cast<double>(result.tokens) / result.cpu_seconds,
                          1e3 / per_second);
    absl::StrAppendFormat(&points, " --point %d:%.1f", result.concurrency, per_second);
  }
  absl::StrAppend(&text, "\nbeamwright capacity --threads 1 --beam-size ", price.rows, points,
                  " --rate CALLS/S --within TIME\n");
  return text;
}

}  // namespace

absl::Status Cost(const CostFlags& flags, std::ostream& output) {
  BW_ASSIGN_OR_RETURN(const std::vector<v1::Source> sources, ReadSources(flags.sources));
  BW_ASSIGN_OR_RETURN(const ModelPtr model, CompileNewest(flags.model));
  DecodeCase one;
  one.seconds = flags.seconds;
  if (flags.beam_size > 0) {
    one.options.set_beam_size(flags.beam_size);
  }
  BW_ASSIGN_OR_RETURN(const RequestPrice price, DearestPrice(model, sources, one.options));
  std::vector<DecodeResult> results;
  for (const int concurrency : flags.concurrency) {
    one.concurrency = concurrency;
    BW_ASSIGN_OR_RETURN(results.emplace_back(), BenchDecode(model, sources, one));
  }
  output << CostText(price, results);
  return absl::OkStatus();
}

}  // namespace beamwright::tools
