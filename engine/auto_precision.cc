#include "engine/auto_precision.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/options/request_lines.h"
#include "include/beamwright/engine.h"
#include "ops/base/cpu.h"
#include "ops/base/precision.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

constexpr int kGoldenTrials = 100;
constexpr int kMadeUpTrials = 40;
constexpr double kLargestTrialShift = 0.1;  // as far as golden requests of fewer bits may be off

using TrialAnswers = std::vector<std::unique_ptr<v1::Decoded>>;

struct TrialRequest {
  v1::Source source;
  v1::DecodeOptions options;
};

// Numbers in [-1, 1), or integers 0 and 1, for the inputs of requests besides the source.
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

// What the encoder takes as ids or features of `length` positions; empty: its extents are not
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

// The answer's whole beam shows more than its best.
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

absl::StatusOr<std::vector<TrialRequest>> MakeTrials(const DecodeModel& model,
                                                     const std::string& golden) {
  std::vector<TrialRequest> trials;
  BW_ASSIGN_OR_RETURN(const std::vector<RequestLine> lines,
                      ReadRequestLines(golden, kGoldenTrials));
  for (const RequestLine& line : lines) {
    trials.push_back({line.source, line.options});
  }
  std::mt19937 random(1);
  for (int i = 0; lines.empty() && model.has_encoder() && i < kMadeUpTrials; ++i) {
    const int length = std::min(2 + i % 12, MaxSourceLength(model));
    v1::Source source = RandomTrialSource(model.parts(), length, random);
    if (source.kind_case() != v1::Source::KIND_NOT_SET) {
      trials.push_back({std::move(source), {}});
    }
  }
  for (TrialRequest& trial : trials) {
    WidenList(model, trial.options);
  }
  return trials;
}

absl::StatusOr<TrialAnswers> DecodeTrials(const std::shared_ptr<const DecodeModel>& model,
                                          absl::Span<const TrialRequest> trials) {
  EngineOptions options;
  options.num_threads = 1;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Start(options));
  TrialAnswers answers(trials.size());
  absl::BlockingCounter left(static_cast<int>(trials.size()));
  for (size_t i = 0; i < trials.size(); ++i) {
    engine->Decode(model, trials[i].source, trials[i].options, {},
                   [&answers, &left, i](absl::StatusOr<v1::Decoded> decoded) {
                     if (decoded.ok()) {
                       answers[i] = std::make_unique<v1::Decoded>(*std::move(decoded));
                     }
                     left.DecrementCount();
                   });
  }
  left.Wait();
  return answers;
}

bool HaveSameTokens(const v1::Hypothesis& a, const v1::Hypothesis& b) {
  return std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end());
}

}  // namespace

bool PrecisionTrial::IsClose() const {
  return requests > 0 && 100 * other_best <= requests && 10 * other_lists <= requests &&
         largest_shift <= kLargestTrialShift;
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

absl::StatusOr<std::shared_ptr<const DecodeModel>> CompileAuto(bundle::Bundle bundle,
                                                               CompileOptions options) {
  const auto note = std::make_shared<std::string>();
  options.precision_note = note;
  const auto compile = [&options](v1::Precision precision, bundle::Bundle own) {
    options.precision = precision;
    return DecodeModel::Compile(std::move(own), options);
  };
  if (FastestPrecision() == Precision::kF32) {
    *note = "f32: this CPU has no AVX2";
    return compile(v1::PRECISION_F32, std::move(bundle));
  }
  std::vector<TrialRequest> trials;
  TrialAnswers exact;
  {  // the weights in f32 go before others are made
    BW_ASSIGN_OR_RETURN(const auto model, compile(v1::PRECISION_F32, bundle));
    auto made = MakeTrials(*model, bundle.golden);
    if (!made.ok()) {
      return Annotate(made.status(), "golden.jsonl");
    }
    trials = *std::move(made);
    BW_ASSIGN_OR_RETURN(exact, DecodeTrials(model, trials));
  }
  *note = absl::StrCat("tried with ", trials.size(),
                       bundle.golden.empty() ? " made-up requests" : " golden requests");
  for (const v1::Precision precision :
       {v1::PRECISION_INT8, v1::PRECISION_INT8_CORE, v1::PRECISION_BF16_AMX, v1::PRECISION_BF16_DOT,
        v1::PRECISION_BF16}) {
    // Slower than bf16 where the CPU does not have them.
    if ((precision == v1::PRECISION_BF16_AMX && !HasBf16Tiles()) ||
        (precision == v1::PRECISION_BF16_DOT && !HasBf16Products())) {
      continue;
    }
    if (trials.empty()) {
      break;
    }
    BW_ASSIGN_OR_RETURN(auto model, compile(precision, bundle));
    BW_ASSIGN_OR_RETURN(const TrialAnswers answers, DecodeTrials(model, trials));
    const PrecisionTrial trial = CompareAnswers(exact, answers);
    const absl::string_view name = model->parts().precision.name;
    absl::StrAppend(note.get(), "; ", name, ": ", trial.ToString());
    if (trial.IsClose()) {
      absl::StrAppend(note.get(), "; ", name, " is taken");
      return model;
    }
  }
  absl::StrAppend(note.get(), "; f32 is taken");
  return compile(v1::PRECISION_F32, std::move(bundle));
}

}  // namespace beamwright::engine
