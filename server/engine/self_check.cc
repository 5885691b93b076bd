// Promise 1 of the README, checked on the very graph, kernels and machine that will serve: random
// values go through the encoder and the step alone and together, and every bit must agree. What may
// run together at all is proven on the graphs (ops/compile/row_proof.h, row_plan.h); this is the
// second line of defence, against a rule or a kernel that is wrong.
#include "ops/decoder/self_check.h"

#include <optional>
#include <random>

#include "ops/base/status.h"
#include "server/engine/model_inputs.h"
#include "server/engine/self_check.h"
#include "server/engine/trial_sources.h"

namespace beamwright::engine {
namespace {

using ops::PartialShape;
using ops::Tensor;

// What the encoder is checked with.
constexpr int64_t kSources = 3;

// Random content for a Parameter; unknown extents become `extent`, the first axis `rows`.
Tensor RandomTensor(const ops::ValueInfo& info, int64_t rows, int64_t extent, int limit,
                    std::mt19937& random) {
  ops::Shape shape = info.shape.dims();
  for (int64_t& dim : shape) {
    dim = dim == PartialShape::kDynamic ? extent : dim;
  }
  if (!shape.empty()) {
    shape[0] = rows;
  }
  Tensor values(ops::DType::kF32, shape);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    const float value = uniform(random);
    values.mutable_data<float>()[i] =
        ops::IsFloat(info.dtype)
            ? 2 * value - 1
            : static_cast<float>(static_cast<int>(value * static_cast<float>(limit)));
  }
  absl::StatusOr<Tensor> converted = ops::Convert(values, info.dtype);
  return converted.ok() ? *converted : values;
}

// The axis along which `together` counts kSources sources where `alone` has one; -1 if both have
// the same shape, nothing if neither holds.
std::optional<int> RowAxis(const Tensor& alone, const Tensor& together) {
  if (alone.rank() != together.rank()) {
    return std::nullopt;
  }
  int found = -1;
  for (int axis = 0; axis < alone.rank(); ++axis) {
    if (alone.dim(axis) == together.dim(axis)) {
      continue;
    }
    if (found >= 0 || alone.dim(axis) != 1 || together.dim(axis) != kSources) {
      return std::nullopt;
    }
    found = axis;
  }
  return found;
}

absl::StatusOr<std::vector<Tensor>> RunEncoder(const DecodeModel::Parts& parts,
                                               const Tensor& sources) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, EncoderInputs(parts, sources));
  std::vector<Tensor> outputs;
  BW_RETURN_IF_ERROR(parts.encoder->Run(ops::ExecutionContext(), inputs, outputs));
  return outputs;
}

Tensor RandomSources(const DecodeModel::Parts& parts, int64_t rows, int64_t length,
                     std::mt19937& random) {
  const ops::Graph& graph = parts.encoder->graph();
  const int source = graph.parameters[static_cast<size_t>(parts.encoder_input)];
  const int limit = parts.source->size() > 0 ? parts.source->size() : 1;
  return RandomTensor(graph.node(source).outputs[0], rows, length, limit, random);
}

// Whether the outputs of kSources sources together are those of source `row` alone, on the axes
// that the proof names.
bool SameRow(absl::Span<const int> axes, const std::vector<Tensor>& alone,
             const std::vector<Tensor>& together, int64_t row) {
  for (size_t i = 0; i < alone.size(); ++i) {
    const std::optional<int> axis = RowAxis(alone[i], together[i]);
    if (axis != axes[i] ||
        !ops::SameBits(alone[i], *axis < 0 ? together[i] : TakeRow(together[i], *axis, row))) {
      return false;
    }
  }
  return true;
}

// Fails only if a single source of this length can't be encoded. Else says in `apart` why sources
// are encoded one at a time, nothing if they are not.
absl::Status CheckEncoder(const DecodeModel::Parts& parts, int64_t length, std::mt19937& random,
                          std::string& apart) {
  const ops::RowProof& proof = parts.encoder_proof;
  const Tensor sources = RandomSources(parts, kSources, length, random);
  apart = proof.reason;
  absl::StatusOr<std::vector<Tensor>> together = std::vector<Tensor>();
  if (proof.separable) {
    together = RunEncoder(parts, sources);
    apart = std::string(together.status().message());
  }
  for (int64_t row = 0; row < kSources; ++row) {
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> alone,
                        RunEncoder(parts, sources.Rows(row, row + 1)));
    if (apart.empty() && !SameRow(proof.result_axes, alone, *together, row)) {
      apart = "the self-check found that sources change bits of others";
    }
  }
  return absl::OkStatus();
}

absl::Status Start(const DecodeModel::Parts& parts, int64_t length, std::mt19937& random,
                   StartValues& start) {
  std::vector<Tensor> inputs;
  if (parts.encoder != nullptr) {
    BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoded,
                        RunEncoder(parts, RandomSources(parts, 1, length, random)));
    BW_ASSIGN_OR_RETURN(inputs, DecoderInputs(parts, encoded, 1, 0, length));
  } else {
    for (const DecoderInput& input : parts.inputs) {
      const ops::ValueInfo& info = parts.decoder.node(input.node).outputs[0];
      inputs.push_back(RandomTensor(info, 1, length, 2, random));
    }
  }
  return Prepare(parts, ops::ExecutionContext(), inputs, start);
}

// Steps of two requests with sources of different lengths, together and alone.
absl::StatusOr<bool> CheckSteps(const DecodeModel::Parts& parts, int64_t length,
                                std::mt19937& random) {
  StartValues shorter;
  StartValues longer;
  BW_RETURN_IF_ERROR(Start(parts, length - 2, random, shorter));
  BW_RETURN_IF_ERROR(Start(parts, length, random, longer));
  return StepsTogetherAsAlone(parts, shorter, longer);
}

}  // namespace

absl::Status SelfCheck(DecodeModel::Parts& parts) {
  std::mt19937 random(20061);
  int64_t length = kTrialLengths[0];
  if (parts.encoder != nullptr) {
    const absl::Status status = CheckEncoder(parts, length, random, parts.encoder_apart);
    if (!status.ok()) {
      length = kTrialLengths[1];
      if (!CheckEncoder(parts, length, random, parts.encoder_apart).ok()) {
        return Annotate(status, absl::StrCat("the encoder fails on random sources of ", length,
                                             " positions and of ", kTrialLengths[0]));
      }
    }
  }
  if (!parts.body->plan().separable) {
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> same = CheckSteps(parts, length, random);
  if (!same.ok() || !*same) {
    parts.body->ForceRowByRow(same.ok() ? "the self-check found that stacked rows change bits"
                                        : std::string(same.status().message()));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
