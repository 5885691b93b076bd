// Promise 1 of the README, checked on the very graph, kernels and machine that will serve: random
// values go through the encoder and the step alone and together, and every bit must agree. What may
// run together at all is proven on the graphs (ops/compile/row_proof.h, row_plan.h); this is the
// second line of defence, against a rule or a kernel that is wrong.
#include <cstring>
#include <optional>
#include <random>

#include "ops/base/status.h"
#include "server/engine/parts.h"
#include "server/engine/step_runner.h"
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

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
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
        !SameBits(alone[i], *axis < 0 ? together[i] : TakeRow(together[i], *axis, row))) {
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

// Two requests with sources of different lengths take two steps together, the second with rows
// repeated, and the same steps row by row.
class StepCheck {
 public:
  explicit StepCheck(const DecodeModel::Parts& parts) : parts_(parts) {}

  absl::StatusOr<bool> Run(int64_t length, std::mt19937& random) {
    BW_RETURN_IF_ERROR(Start(parts_, length - 2, random, starts_[0]));
    BW_RETURN_IF_ERROR(Start(parts_, length, random, starts_[1]));
    std::vector<Tensor> states;
    for (size_t i = 0; i < starts_[0].states.size(); ++i) {
      Tensor both = ops::RepeatRow(starts_[0].states[i], 2);
      const Tensor& second = starts_[1].states[i];
      if (second.shape() != starts_[0].states[i].shape()) {
        return Invalid("state ", i, " depends on the length of the source");
      }
      std::memcpy(both.mutable_bytes() + second.num_bytes(), second.bytes(),
                  static_cast<size_t>(second.num_bytes()));
      states.push_back(both);
    }
    BW_ASSIGN_OR_RETURN(const bool first, Step({0, 1}, {1, 1}, states));
    if (!first) {
      return false;
    }
    return Step({0, 0, 1}, {2, 1}, states);
  }

 private:
  // One step of rows that continue `parents`, counts[i] of request i; false if bits differ.
  absl::StatusOr<bool> Step(const std::vector<int32_t>& parents, const std::vector<int>& counts,
                            std::vector<Tensor>& states) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < parents.size(); ++i) {
      tokens.push_back(static_cast<int32_t>(i) % parts_.vocabulary_size);
    }
    std::vector<Tensor> old = states;
    std::vector<Tensor> results;
    ops::LoopBody::RowScratch rows;
    BW_RETURN_IF_ERROR(
        RunStep({&starts_[0], &starts_[1]}, counts, parents, tokens, rows, states, results));
    bool same = true;
    for (size_t row = 0; row < parents.size(); ++row) {
      StartValues* request = static_cast<int>(row) < counts[0] ? &starts_[0] : &starts_[1];
      std::vector<Tensor> alone = old;
      std::vector<Tensor> alone_results;
      ops::LoopBody::RowScratch alone_rows;
      BW_RETURN_IF_ERROR(
          RunStep({request}, {1}, {parents[row]}, {tokens[row]}, alone_rows, alone, alone_results));
      const auto at = static_cast<int64_t>(row);
      for (size_t i = 0; i < alone.size(); ++i) {
        same = same && SameBits(alone[i], states[i].Rows(at, at + 1));
      }
      const auto logits = static_cast<size_t>(parts_.logits_result);
      same = same && results[logits].has_value() && results[logits].rank() > 0 &&
             results[logits].dim(0) == static_cast<int64_t>(parents.size()) &&
             SameBits(alone_results[logits], results[logits].Rows(at, at + 1));
      if (same && parts_.projection != nullptr) {
        Tensor alone_scores;
        Tensor scores;
        const Tensor& one = AllScores(parts_, {}, alone_results[logits], alone_scores);
        same = SameBits(one, AllScores(parts_, {}, results[logits], scores).Rows(at, at + 1));
      }
    }
    return same;
  }

  absl::Status RunStep(const std::vector<StartValues*>& requests, const std::vector<int>& counts,
                       const std::vector<int32_t>& parents, const std::vector<int32_t>& tokens,
                       ops::LoopBody::RowScratch& rows, std::vector<Tensor>& states,
                       std::vector<Tensor>& results) const {
    std::vector<ops::LoopBody::RequestValues*> values;
    for (StartValues* request : requests) {
      values.push_back(&request->values);
    }
    const Tensor slice = parts_.TokenTensor(tokens);
    const ops::LoopBody::RowStep step{values, counts, parents, {&slice, 1}};
    return parts_.body->StepRows(ops::ExecutionContext(), step, rows, states, results);
  }

  const DecodeModel::Parts& parts_;
  StartValues starts_[2];
};

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
  const absl::StatusOr<bool> same = StepCheck(parts).Run(length, random);
  if (!same.ok() || !*same) {
    parts.body->ForceRowByRow(same.ok() ? "the self-check found that stacked rows change bits"
                                        : std::string(same.status().message()));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
