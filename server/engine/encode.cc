#include "server/engine/encode.h"

#include <algorithm>
#include <cstring>

#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/kernels/math.h"
#include "ops/kernels/mix_scores.h"
#include "server/fusion/ctc_prefix.h"
#include "server/status/fault.h"

namespace beamwright::engine {
namespace {

using ops::Tensor;
using Requests = std::vector<std::unique_ptr<Request>>;

// The requests' inputs, [1, ...] each and of one shape, stacked.
Tensor Stack(absl::Span<const std::unique_ptr<Request>> group) {
  const Tensor& first = *group[0]->source.encoder_input;
  ops::Shape shape = first.shape();
  shape[0] = static_cast<int64_t>(group.size());
  Tensor stacked(first.dtype(), shape);
  for (size_t i = 0; i < group.size(); ++i) {
    const Tensor& input = *group[i]->source.encoder_input;
    std::memcpy(stacked.mutable_bytes() + static_cast<int64_t>(i) * first.num_bytes(),
                input.bytes(), static_cast<size_t>(first.num_bytes()));
  }
  return stacked;
}

// An input of the decoder that the encoder does not compute: a constant, or the source's length.
absl::StatusOr<Tensor> OwnInput(const DecodeModel::Parts& parts, const DecoderInput& input,
                                int64_t source_length) {
  if (input.length_kind != v1::LENGTH_INPUT_NONE) {
    const ops::DType dtype = parts.decoder.node(input.node).outputs[0].dtype;
    return LengthTensor(input.length_kind, dtype, 1, source_length);
  }
  return ConstantInput(parts, input);
}

absl::Status RunEncoder(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                        const Tensor& sources, std::vector<Tensor>& outputs) {
  BW_ASSIGN_OR_RETURN(const std::vector<Tensor> encoder_inputs, EncoderInputs(parts, sources));
  return Annotate(parts.encoder->Run(context, encoder_inputs, outputs), "encoder");
}

// A CTC output's frames of one source: [1, frames, columns] or [frames, 1, columns].
absl::StatusOr<fusion::CtcFrames> FramesOf(const ScorerPart& scorer, const Tensor& output) {
  if (output.dtype() != ops::DType::kF32 || output.rank() != 3 ||
      (output.dim(0) != 1 && output.dim(1) != 1) || scorer.ctc_blank >= output.dim(2)) {
    return absl::InternalError(absl::StrCat(
        "scorer '", scorer.name, "': the encoder's output is ", ops::Name(output.dtype()),
        ops::ToString(output.shape()), " for one source; CTC scores are f32 [1, frames, columns]",
        " or [frames, 1, columns], with a column for the blank, ", scorer.ctc_blank));
  }
  fusion::CtcFrames frames;
  frames.num_columns = static_cast<int>(output.dim(2));
  frames.blank = scorer.ctc_blank;
  frames.probs.resize(static_cast<size_t>(output.num_elements()));
  const auto columns = static_cast<size_t>(output.dim(2));
  for (size_t start = 0; start < frames.probs.size(); start += columns) {
    const absl::Span<float> frame(frames.probs.data() + start, columns);
    BW_RETURN_IF_ERROR(
        Annotate(ops::ToLogProbs({output.data<float>() + start, columns}, scorer.ctc_kind, frame),
                 absl::StrCat("scorer '", scorer.name, "', frame ", start / columns)));
    for (float& value : frame) {
      value = ops::Exp(value);
    }
  }
  return frames;
}

absl::Status PrepareCtc(const DecodeModel::Parts& parts, absl::Span<const Tensor> outputs,
                        int64_t num_sources, int64_t row, Request& request) {
  for (RequestScorer& scorer : request.scorers) {
    const ScorerPart& part = *parts.FindScorer(scorer.name);
    if (part.ctc_output < 0) {
      continue;
    }
    const auto index = static_cast<size_t>(part.ctc_output);
    const int axis = num_sources > 1 ? parts.encoder_proof.result_axes[index] : -1;
    BW_ASSIGN_OR_RETURN(
        fusion::CtcFrames frames,
        FramesOf(part, axis < 0 ? outputs[index] : TakeRow(outputs[index], axis, row)));
    scorer.rows = std::make_unique<fusion::CtcPrefixScorer>(std::move(frames),
                                                            request.search_options().end_tokens);
  }
  return absl::OkStatus();
}

// Decoders that read nothing of the source.
absl::Status PrepareLanguageModels(const ops::ExecutionContext& context,
                                   const DecodeModel::Parts& parts, Request& request) {
  for (int number = parts.num_members(); number < parts.num_decoders(); ++number) {
    RequestDecoder& decoder = request.decoders[static_cast<size_t>(number)];
    if (decoder.is_used) {
      const DecodeModel::Parts& own = parts.decoder_parts(number);
      BW_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, DecoderInputs(own, {}, 1, 0, 0));
      BW_RETURN_IF_ERROR(Prepare(own, context, inputs, decoder.rows.start));
    }
  }
  return absl::OkStatus();
}

absl::Status EncodeGroup(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                         absl::Span<const std::unique_ptr<Request>> group,
                         std::vector<absl::Status>& statuses) {
  const auto count = static_cast<int64_t>(group.size());
  const Tensor sources = Stack(group);
  std::vector<Tensor> shared;
  BW_RETURN_IF_ERROR(RunEncoder(context, parts, sources, shared));
  for (int member = 0; member < parts.num_members(); ++member) {
    const DecodeModel::Parts& own = parts.decoder_parts(member);
    std::vector<Tensor> outputs;
    if (own.encoder != parts.encoder) {
      BW_RETURN_IF_ERROR(RunEncoder(context, own, sources, outputs));
    }
    for (size_t row = 0; row < group.size(); ++row) {
      absl::StatusOr<std::vector<Tensor>> inputs =
          DecoderInputs(own, own.encoder == parts.encoder ? shared : outputs, count,
                        static_cast<int64_t>(row), group[row]->source.source_length);
      DecoderRows& rows = group[row]->decoders[static_cast<size_t>(member)].rows;
      statuses[row].Update(inputs.ok() ? Prepare(own, context, *inputs, rows.start)
                                       : inputs.status());
    }
  }
  for (size_t row = 0; row < group.size(); ++row) {
    statuses[row].Update(PrepareLanguageModels(context, parts, *group[row]));
    statuses[row].Update(PrepareCtc(parts, shared, count, static_cast<int64_t>(row), *group[row]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ConstantInput(const DecodeModel::Parts& parts, const DecoderInput& input) {
  const ops::ValueInfo& info = parts.decoder.node(input.node).outputs[0];
  ops::Shape shape = info.shape.dims();
  if (!shape.empty()) {
    shape[0] = 1;
  }
  const bool is_known = info.shape.has_rank() && std::all_of(shape.begin(), shape.end(),
                                                             [](int64_t dim) { return dim >= 0; });
  if (!is_known) {
    return Invalid("state '", input.name,
                   "' starts from a constant, but the graph leaves its shape ",
                   info.shape.ToString(), " open");
  }
  BW_RETURN_IF_ERROR(Annotate(ops::CheckedNumElements(shape).status(),
                              absl::StrCat("constant initial state '", input.name, "'")));
  Tensor constant(ops::DType::kF32, shape);
  std::fill_n(constant.mutable_data<float>(), constant.num_elements(), input.constant);
  return Convert(constant, info.dtype);
}

absl::StatusOr<Tensor> LengthTensor(v1::LengthInput kind, ops::DType dtype, int64_t rows,
                                    int64_t length) {
  const bool lengths = kind == v1::LENGTH_INPUT_LENGTHS;
  Tensor tensor(ops::DType::kI64, lengths ? ops::Shape{rows} : ops::Shape{rows, length});
  const int64_t additive = kind == v1::LENGTH_INPUT_ADDITIVE_MASK ? 0 : 1;
  std::fill_n(tensor.mutable_data<int64_t>(), tensor.num_elements(), lengths ? length : additive);
  return Convert(tensor, dtype);
}

absl::StatusOr<std::vector<Tensor>> EncoderInputs(const DecodeModel::Parts& parts, Tensor sources) {
  const ops::Graph& graph = parts.encoder->graph();
  std::vector<Tensor> inputs(graph.parameters.size());
  if (parts.encoder_length_input >= 0) {
    const auto index = static_cast<size_t>(parts.encoder_length_input);
    const ops::DType dtype = graph.node(graph.parameters[index]).outputs[0].dtype;
    BW_ASSIGN_OR_RETURN(inputs[index], LengthTensor(parts.config.encoder().length_kind(), dtype,
                                                    sources.dim(0), sources.dim(1)));
  }
  // Members of an ensemble may take ids in another type than the model's own encoder.
  const auto index = static_cast<size_t>(parts.encoder_input);
  const int node = graph.parameters[index];
  const ops::DType dtype = graph.node(node).outputs[0].dtype;
  if (dtype != sources.dtype() && ops::IsInteger(dtype) && ops::IsInteger(sources.dtype())) {
    BW_ASSIGN_OR_RETURN(sources, Convert(sources, dtype));
  }
  inputs[index] = std::move(sources);
  return inputs;
}

Tensor TakeRow(const Tensor& tensor, int axis, int64_t row) {
  ops::Shape shape = tensor.shape();
  shape[static_cast<size_t>(axis)] = 1;
  Tensor taken(tensor.dtype(), shape);
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) {
    outer *= tensor.dim(i);
  }
  const auto bytes = static_cast<size_t>(outer == 0 ? 0 : taken.num_bytes() / outer);
  for (int64_t i = 0; i < outer; ++i) {
    std::memcpy(taken.mutable_bytes() + static_cast<size_t>(i) * bytes,
                tensor.bytes() + static_cast<size_t>(i * tensor.dim(axis) + row) * bytes, bytes);
  }
  return taken;
}

absl::StatusOr<std::vector<Tensor>> DecoderInputs(const DecodeModel::Parts& parts,
                                                  absl::Span<const Tensor> encoded,
                                                  int64_t num_sources, int64_t row,
                                                  int64_t source_length) {
  std::vector<Tensor> inputs;
  for (const DecoderInput& input : parts.inputs) {
    if (input.encoder_output < 0) {
      BW_ASSIGN_OR_RETURN(Tensor own, OwnInput(parts, input, source_length));
      inputs.push_back(std::move(own));
      continue;
    }
    const auto index = static_cast<size_t>(input.encoder_output);
    const int axis = num_sources > 1 ? parts.encoder_proof.result_axes[index] : -1;
    if (axis >= 0 && (encoded[index].rank() <= axis || encoded[index].dim(axis) != num_sources)) {
      return absl::InternalError(absl::StrCat(
          "encoder output for '", input.name, "' is ", ops::ToString(encoded[index].shape()),
          " for ", num_sources, " sources; axis ", axis, " must count them"));
    }
    Tensor value = axis >= 0 ? TakeRow(encoded[index], axis, row) : encoded[index];
    if (input.layers_first) {
      if (value.rank() < 2 || value.dim(1) != 1) {
        return absl::InternalError(absl::StrCat(
            "encoder output for '", input.name, "' is ", ops::ToString(value.shape()),
            " for one source; its second axis must count sources, as the decoder's does"));
      }
      ops::Shape shape = value.shape();
      std::swap(shape[0], shape[1]);
      value = value.Reshaped(shape);
    }
    inputs.push_back(std::move(value));
  }
  return inputs;
}

namespace {

// Where there is no encoder requests bring everything, and alone are to blame if it does not fit.
absl::Status StartFromInputs(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                             Request& request) {
  StartValues& start = request.decoders[0].rows.start;
  absl::Status status = Prepare(parts, context, request.source.decoder_inputs, start);
  if (status.ok()) {
    status = TryStep(parts, context, start);
  }
  if (!status.ok() && !absl::IsCancelled(status)) {
    return status::InvalidField("source.decoder_inputs",
                                "the decoder fails on them: ", status.message());
  }
  BW_RETURN_IF_ERROR(status);
  return PrepareLanguageModels(context, parts, request);
}

// Each request for itself. What made them fail together may be one source alone, for example an
// index that the graph computes from it: the others have their answers.
void EncodeApart(const ops::ExecutionContext& context, const DecodeModel::Parts& parts,
                 absl::Span<const std::unique_ptr<Request>> group,
                 std::vector<absl::Status>& statuses) {
  for (size_t i = 0; i < group.size(); ++i) {
    std::vector<absl::Status> status(1);
    statuses[i] = EncodeGroup(context, parts, group.subspan(i, 1), status);
    statuses[i].Update(status[0]);
  }
}

// Fails if all do.
absl::Status Compute(const ops::ExecutionContext& context, const Requests& group,
                     std::vector<absl::Status>& statuses) {
  FaultPoint("engine.encode").IgnoreError();
  const DecodeModel::Parts& parts = group[0]->model->parts();
  if (parts.encoder != nullptr) {
    const absl::Status status = EncodeGroup(context, parts, group, statuses);
    // An interrupted run is repeated by the engine, for those that are not answered yet.
    if (status.ok() || group.size() == 1 || absl::IsDeadlineExceeded(status) ||
        absl::IsCancelled(status)) {
      return status;
    }
    EncodeApart(context, parts, group, statuses);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < group.size(); ++i) {
    statuses[i] = StartFromInputs(context, parts, *group[i]);
  }
  return absl::OkStatus();
}

}  // namespace

Requests Encode(const ops::ExecutionContext& context, Requests group, Underway* underway,
                Requests* again) {
  const DecodeModel::Parts& parts = group[0]->model->parts();
  std::vector<absl::Status> statuses(group.size());
  absl::Status status;
  {
    const Underway::Scope scope(underway, *group[0]->model, group, /*driver=*/nullptr);
    status = Compute(context, group, statuses);
  }
  Requests ready;
  for (size_t i = 0; i < group.size(); ++i) {
    const absl::Status& own = status.ok() ? statuses[i] : status;
    if (group[i]->is_answered) {
      continue;
    }
    if (own.ok()) {
      ready.push_back(std::move(group[i]));
    } else if (absl::IsCancelled(own) && again != nullptr && underway->was_interrupted()) {
      group[i]->encodes_alone = true;
      again->push_back(std::move(group[i]));
    } else if (parts.encoder == nullptr || absl::IsDeadlineExceeded(own)) {
      group[i]->Fail(own);
    } else {
      group[i]->Fail(absl::InternalError(own.message()));
    }
  }
  return ready;
}

}  // namespace beamwright::engine
