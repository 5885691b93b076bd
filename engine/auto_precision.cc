// CompileAuto: the fastest precision whose answers are close to those of f32.
//
// 1. MakeTrials: the bundle's golden requests, or made-up sources of random ids or features with
//    short answers.
// 2. The model is compiled in f32 and, on another thread meanwhile, in the fastest candidate of
//    this CPU.
// 3. Comparison::IsClose decodes the trials in both, in waves of 10, 20, 40 ...: a candidate that
//    is out is out early. CompareAnswers counts other best hypotheses, other n-best lists, and the
//    largest shift of a score.
// 4. If the fastest (int8) is close it is taken. If not, the most exact candidate (bf16) is tried:
//    where that is not close, the model is served in f32. If it is, those in between are tried from
//    the fastest on, until one is close.
//
// Only answers decide, no clock: the choice follows from the bundle and the CPU's kind, so that two
// servers of one kind choose the same, and their answers have the same bits.
#include "engine/auto_precision.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/bundle/proto_text.h"
#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "include/beamwright/engine.h"
#include "ops/base/cpu.h"
#include "ops/base/memory.h"
#include "ops/base/precision.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::engine {
namespace {

constexpr int kGoldenTrials = 100;
// Made-up requests: 200, since one answer in 200 may differ, but fewer of a model whose steps take
// long. None goes on beyond a few tokens, so that a trial takes no longer than a load.
constexpr int kMadeUpTrials = 200;
constexpr int kFewestMadeUpTrials = 40;
constexpr int64_t kMadeUpBytes = int64_t{4} << 30;  // weights read, if each reads all of them once
constexpr int kMadeUpLength = 8;
// The trials of the first wave; each further wave doubles their number, and a precision that is not
// close ends early.
constexpr size_t kFirstWave = 10;
// The allowed shift of scores of made-up requests: a quarter, as their answers are short.
constexpr double kMadeUpShift = PrecisionTrial().most_shift / 4;

using TrialAnswers = std::vector<std::unique_ptr<v1::Decoded>>;

struct TrialRequest {
  v1::Source source;
  v1::DecodeOptions options;
};

// Adds further inputs of the encoders: numbers in [-1, 1), or integers 0 and 1.
void AddRandomFurtherInputs(const DecodeModel::Parts& parts, int length, std::mt19937& random,
                            v1::Source& source) {
  for (const auto& [encoder, input] : parts.wanted_inputs()) {
    const ops::ValueInfo& info = encoder->info_of(input->input);
    absl::StatusOr<ops::Tensor> made = ConstantInput(*encoder, *input, length);
    if (input->has_constant || !made.ok()) {
      continue;
    }
    ops::Tensor values(ops::DType::kF32, made->shape());
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const auto draw = static_cast<float>(random() % 2048);
      values.mutable_data<float>()[i] =
          ops::IsFloat(info.dtype) ? draw / 1024 - 1
                                   : static_cast<float>(input->table_rows != 1 && draw >= 1024);
    }
    made = Convert(values, info.dtype);
    if (made.ok()) {
      v1::Tensor& tensor = (*source.mutable_further_inputs())[input->name];
      tensor.set_dtype(std::string(ops::Name(info.dtype)));
      tensor.mutable_shape()->Add(made->shape().begin() + 1, made->shape().end());
      tensor.set_data(made->bytes(), static_cast<size_t>(made->num_bytes()));
    }
  }
}

// A source of random ids or features of `length` positions; empty if the encoder's extents are not
// known.
v1::Source RandomTrialSource(const DecodeModel::Parts& parts, int length, std::mt19937& random) {
  const ops::ValueInfo& info = parts.encoder()->source_info();
  v1::Source source;
  const auto below = [&random](int64_t limit) {
    return static_cast<int32_t>(random() % static_cast<uint64_t>(std::max<int64_t>(limit, 1)));
  };
  const int length_axis = parts.encoder()->length_axis;
  if (info.shape.rank() > length_axis &&
      info.shape.dim(length_axis) != ops::PartialShape::kDynamic) {
    length = static_cast<int>(info.shape.dim(length_axis));
  }
  if (ops::IsInteger(info.dtype)) {
    const int64_t size = std::max<int64_t>(parts.source->size(), parts.encoder()->table_rows);
    for (int i = 0; i < length; ++i) {
      source.mutable_ids()->add_ids(below(size));
    }
    AddRandomFurtherInputs(parts, length, random, source);
    return source;
  }
  int64_t count = 1;
  const auto& streaming = parts.encoder()->streaming;
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    const int64_t extent = streaming.has_value() ? (axis == 1 ? 2 * length : streaming->width)
                           : axis == length_axis ? length
                                                 : info.shape.dim(axis);
    count *= std::max<int64_t>(extent, 0);  // 0: another extent is open
    source.mutable_features()->add_shape(extent);
  }
  if (count <= 0 || info.dtype != ops::DType::kF32) {
    return {};
  }
  std::string data(static_cast<size_t>(count) * sizeof(float), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(below(2001) - 1000) / 1000;
    std::copy_n(reinterpret_cast<const char*>(&value), sizeof(value),
                data.begin() + i * static_cast<int64_t>(sizeof(value)));
  }
  source.mutable_features()->set_dtype("f32");
  source.mutable_features()->set_data(std::move(data));
  AddRandomFurtherInputs(parts, length, random, source);
  return source;
}

// Asks for as many hypotheses as the beam has: lists show more differences than best hypotheses.
void WidenList(const DecodeModel& model, v1::DecodeOptions& options) {
  const auto resolved = ResolveOptions(model, options);
  if (resolved.ok()) {
    v1::DecodeOptions wide = options;
    wide.set_n_best((*resolved)->merged.beam_size());
    if (ResolveOptions(model, wide).ok()) {
      options = wide;
    }
  }
}

void LimitLength(const DecodeModel& model, v1::DecodeOptions& options) {
  v1::DecodeOptions limited = options;
  limited.set_max_length(kMadeUpLength);
  if (ResolveOptions(model, limited).ok()) {
    options = limited;
  }
}

absl::StatusOr<std::vector<TrialRequest>> MakeTrials(const DecodeModel& model,
                                                     const std::string& golden) {
  std::vector<TrialRequest> trials;
  BW_ASSIGN_OR_RETURN(const std::vector<bundle::RequestLine> lines,
                      bundle::ReadRequestLines(golden, kGoldenTrials));
  for (const bundle::RequestLine& line : lines) {
    trials.push_back({line.source, line.options});
  }
  std::mt19937 random(1);
  const auto made_up = static_cast<int>(
      std::clamp<int64_t>(kMadeUpBytes / std::max<int64_t>(model.weight_bytes(), 1),
                          kFewestMadeUpTrials, kMadeUpTrials));
  for (int i = 0; lines.empty() && model.has_encoder() && i < made_up; ++i) {
    const int length = std::min(2 + i % 12, MaxSourceLength(model));
    v1::Source source = RandomTrialSource(model.parts(), length, random);
    if (source.kind_case() != v1::Source::KIND_NOT_SET) {
      trials.push_back({std::move(source), {}});
      LimitLength(model, trials.back().options);
    }
  }
  for (TrialRequest& trial : trials) {
    WidenList(model, trial.options);
  }
  return trials;
}

// Appends the model's answers to trials [answers.size(), end), on all threads; null where one
// fails.
absl::Status DecodeTrials(const std::shared_ptr<const DecodeModel>& model,
                          absl::Span<const TrialRequest> trials, size_t end,
                          const Interruption* interruption, TrialAnswers& answers) {
  const size_t begin = answers.size();
  if (begin >= end) {
    return absl::OkStatus();
  }
  EngineOptions options;
  options.num_streams = EngineOptions::kStreamsAsWorkIs;
  options.interruption = interruption;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(options));
  answers.resize(end);
  absl::BlockingCounter left(static_cast<int>(end - begin));
  for (size_t i = begin; i < end; ++i) {
    engine->Decode(model, trials[i].source, trials[i].options, {},
                   [&answers, &left, i](absl::StatusOr<v1::Decoded> decoded) {
                     if (decoded.ok()) {
                       answers[i] = std::make_unique<v1::Decoded>(*std::move(decoded));
                     }
                     left.DecrementCount();
                   });
  }
  left.Wait();
  return absl::OkStatus();
}

bool HaveSameTokens(const v1::Hypothesis& a, const v1::Hypothesis& b) {
  return std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end());
}

}  // namespace

bool PrecisionTrial::IsClose() const { return requests > 0 && IsClose(requests); }

bool PrecisionTrial::IsClose(int of_requests) const {
  return 200 * other_best <= of_requests && 20 * other_lists <= of_requests &&
         largest_shift <= most_shift;
}

std::string PrecisionTrial::ToString() const {
  return absl::StrFormat("%d of %d best hypotheses and %d lists differ, scores by up to %.3g",
                         other_best, requests, other_lists, largest_shift);
}

PrecisionTrial CompareAnswers(absl::Span<const std::unique_ptr<v1::Decoded>> exact,
                              absl::Span<const std::unique_ptr<v1::Decoded>> answers) {
  PrecisionTrial trial;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (exact[i] == nullptr || exact[i]->hypotheses().empty()) {
      continue;
    }
    ++trial.requests;
    if (answers[i] == nullptr || answers[i]->hypotheses().empty()) {
      ++trial.other_best;
      ++trial.other_lists;
      continue;
    }
    const auto& from = exact[i]->hypotheses();
    const auto& to = answers[i]->hypotheses();
    trial.other_lists +=
        std::equal(from.begin(), from.end(), to.begin(), to.end(), HaveSameTokens) ? 0 : 1;
    if (HaveSameTokens(from[0], to[0])) {
      trial.largest_shift =
          std::max(trial.largest_shift, std::abs(double{from[0].score()} - double{to[0].score()}));
    } else {
      ++trial.other_best;
    }
  }
  return trial;
}

namespace {

using ModelPtr = std::shared_ptr<const DecodeModel>;

// The precisions that this CPU computes faster than f32, the fastest and least exact first.
std::vector<v1::Precision> Candidates() {
  std::vector<v1::Precision> candidates = {v1::PRECISION_INT8, v1::PRECISION_INT8_CORE};
  if (HasBf16Tiles()) {
    candidates.push_back(v1::PRECISION_BF16_AMX);
  }
  if (HasBf16Products()) {
    candidates.push_back(v1::PRECISION_BF16_DOT);
  }
  candidates.push_back(v1::PRECISION_BF16);
  return candidates;
}

// Compares answers of a model in other precisions with those in f32.
class Comparison {
 public:
  // most_shift: as PrecisionTrial's. interruption: of the trials.
  Comparison(ModelPtr exact, std::vector<TrialRequest> trials, double most_shift,
             const Interruption* interruption)
      : exact_(std::move(exact)),
        trials_(std::move(trials)),
        most_shift_(most_shift),
        interruption_(interruption) {}

  // Answers all trials in f32.
  absl::Status AnswerExactly() {
    return DecodeTrials(exact_, trials_, trials_.size(), interruption_, exact_answers_);
  }

  // Adds the outcome to `note`.
  absl::StatusOr<bool> IsClose(const ModelPtr& model, std::string& note) {
    PrecisionTrial trial;
    TrialAnswers answers;
    size_t end = 0;
    do {
      end = std::min(end == 0 ? kFirstWave : 2 * end, trials_.size());
      BW_RETURN_IF_ERROR(DecodeTrials(exact_, trials_, end, interruption_, exact_answers_));
      BW_RETURN_IF_ERROR(DecodeTrials(model, trials_, end, interruption_, answers));
      trial = CompareAnswers(absl::MakeConstSpan(exact_answers_).first(end), answers);
      trial.most_shift = most_shift_;
    } while (end < trials_.size() && trial.IsClose(static_cast<int>(trials_.size())));
    absl::StrAppend(&note, "; ", model->parts().precision.name, ": ", trial.ToString());
    return trial.IsClose();
  }

 private:
  const ModelPtr exact_;
  const std::vector<TrialRequest> trials_;
  const double most_shift_;
  const Interruption* const interruption_;
  TrialAnswers exact_answers_;  // of the first trials, as far as they were compared
};

// Whether two threads may read the weights at once, which then stay in memory until both are done.
bool MayStayInMemory(const bundle::Bundle& bundle) {
  const int64_t weights = ops::CountWeights(bundle.decoder) +
                          (bundle.encoder.has_value() ? ops::CountWeights(*bundle.encoder) : 0);
  const int64_t usable = UsableMemoryBytes();
  return usable == 0 || weights * static_cast<int64_t>(sizeof(float)) <= usable / 8;
}

}  // namespace

absl::StatusOr<ModelPtr> CompileAuto(bundle::Bundle bundle, CompileOptions options) {
  const auto note = std::make_shared<std::string>();
  options.precision_note = note;
  const auto compile = [&options, &bundle](v1::Precision precision) {
    CompileOptions with = options;
    with.precision = precision;
    return DecodeModel::Compile(bundle, with);
  };
  const bool tries = FastestPrecision() != Precision::kF32;
  // A candidate is compiled on another thread meanwhile: compilation uses one thread mostly.
  std::optional<ops::ForgettingPaused> paused;
  std::launch where = std::launch::deferred;
  if (MayStayInMemory(bundle)) {
    paused.emplace();
    where = std::launch::async;
  }
  std::future<absl::StatusOr<ModelPtr>> next;
  if (tries) {
    next = std::async(where, compile, Candidates()[0]);
  }
  BW_ASSIGN_OR_RETURN(ModelPtr exact, compile(v1::PRECISION_F32));
  if (!tries) {
    *note = "f32: this CPU has no AVX2";
    return exact;
  }
  auto made = MakeTrials(*exact, bundle.golden);
  if (!made.ok()) {
    return Annotate(made.status(), "golden.jsonl");
  }
  std::vector<TrialRequest> trials = *std::move(made);
  *note = absl::StrCat("tried with ", trials.size(),
                       bundle.golden.empty() ? " made-up requests" : " golden requests");
  std::vector<v1::Precision> candidates = Candidates();
  if (trials.empty()) {
    candidates.clear();
  }
  Comparison comparison(exact, std::move(trials),
                        bundle.golden.empty() ? kMadeUpShift : PrecisionTrial().most_shift,
                        options.context.interruption);
  // The fastest first, then the most exact: where that is not close, none in between is.
  if (candidates.size() > 1) {
    std::rotate(candidates.begin() + 1, candidates.end() - 1, candidates.end());
  }
  ModelPtr best = std::move(exact);
  // Kept meanwhile: later candidates share its packed weights (ops/kernels/shared_weights.h).
  ModelPtr fastest;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) {
      next = std::async(where, compile, candidates[i]);
      BW_RETURN_IF_ERROR(comparison.AnswerExactly());  // what the trial needs
    }
    BW_ASSIGN_OR_RETURN(ModelPtr model, next.get());
    fastest = i == 0 ? model : fastest;
    BW_ASSIGN_OR_RETURN(const bool is_close, comparison.IsClose(model, *note));
    if (is_close) {
      best = std::move(model);
    }
    if (is_close != (i == 1)) {
      break;
    }
  }
  absl::StrAppend(note.get(), "; ", best->parts().precision.name, " is taken");
  return best;
}

}  // namespace beamwright::engine
