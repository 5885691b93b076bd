// Makes the tensors that encoders and decoders read, and takes the results of one source out of
// those of several.
//
// 1. EncoderInputs: the sources of a batch, further inputs, and lengths or a mask. A mask hides
//    nothing, as positions after a source's end are cut off from the results instead (see below).
// 2. DecoderInputs: for each input of a decoder the encoder's result, the source's length, or a
//    constant (ConstantInput; a state that grows starts with the extent 0).
// 3. ResultOfSource: the row of a source within a result of the batch, if the result has rows, and
//    its first positions, if sources were padded. Which axes count rows and positions was proven
//    when the model was compiled (RowProof).
#include "engine/model/model_inputs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"

namespace beamwright::engine {

using ops::Tensor;

namespace {

// A tensor filled with a value. Errors name `what`.
absl::StatusOr<Tensor> Filled(ops::DType dtype, const ops::Shape& shape, float value,
                              const std::string& what) {
  BW_RETURN_IF_ERROR(Annotate(ops::CheckedNumElements(shape).status(), what));
  Tensor constant(ops::DType::kF32, shape);
  std::fill_n(constant.mutable_data<float>(), constant.num_elements(), value);
  return Convert(constant, dtype);
}

}  // namespace

absl::StatusOr<Tensor> ConstantInput(const DecoderPart& decoder, const DecoderInput& input) {
  if (input.constant_tensor.has_value()) {
    return input.constant_tensor;
  }
  const ops::ValueInfo& info = decoder.decoder.node(input.node).outputs[0];
  ops::Shape shape = info.shape.dims();
  if (!shape.empty()) {
    shape[0] = 1;
  }
  if (input.growing_axis >= 0) {
    shape[static_cast<size_t>(input.growing_axis)] = 0;  // it starts with nothing
  }
  const bool is_known = info.shape.has_rank() && std::all_of(shape.begin(), shape.end(),
                                                             [](int64_t dim) { return dim >= 0; });
  if (!is_known) {
    return Invalid("state '", input.name,
                   "' starts from a constant, but the graph leaves its shape ",
                   info.shape.ToString(), " open");
  }
  return Filled(info.dtype, shape, input.constant,
                absl::StrCat("constant initial state '", input.name, "'"));
}

absl::StatusOr<Tensor> LengthTensor(v1::LengthInput kind, ops::DType dtype, int64_t rows,
                                    int64_t length) {
  const bool lengths = kind == v1::LENGTH_INPUT_LENGTHS;
  Tensor tensor(ops::DType::kI64, lengths ? ops::Shape{rows} : ops::Shape{rows, length});
  const int64_t additive = kind == v1::LENGTH_INPUT_ADDITIVE_MASK ? 0 : 1;
  std::fill_n(tensor.mutable_data<int64_t>(), tensor.num_elements(), lengths ? length : additive);
  return Convert(tensor, dtype);
}

namespace {

// An input of the decoder that the encoder does not compute: a constant, or the source's length.
absl::StatusOr<Tensor> OwnInput(const DecoderPart& decoder, const DecoderInput& input,
                                int64_t source_length) {
  if (input.length_kind != v1::LENGTH_INPUT_NONE) {
    const ops::DType dtype = decoder.decoder.node(input.node).outputs[0].dtype;
    return LengthTensor(input.length_kind, dtype, 1, source_length);
  }
  return ConstantInput(decoder, input);
}

}  // namespace

absl::StatusOr<Tensor> ConstantInput(const EncoderPart& encoder, const FurtherInput& input,
                                     int64_t source_length) {
  const ops::ValueInfo& info = encoder.info_of(input.input);
  ops::Shape shape = info.shape.dims();
  std::replace(shape.begin(), shape.end(), ops::PartialShape::kDynamic, source_length);
  shape[0] = 1;
  return Filled(info.dtype, shape, input.constant,
                absl::StrCat("encoder input '", input.name, "'"));
}

absl::StatusOr<std::vector<Tensor>> EncoderInputs(const EncoderPart& encoder, Tensor sources,
                                                  absl::Span<const Tensor> further,
                                                  absl::Span<const int64_t> lengths) {
  const ops::Graph& graph = encoder.model->graph();
  std::vector<Tensor> inputs(graph.parameters.size());
  for (size_t i = 0; i < encoder.further_inputs.size(); ++i) {
    inputs[static_cast<size_t>(encoder.further_inputs[i].input)] = further[i];
  }
  Tensor own_lengths = Tensor::Of<int64_t>({static_cast<int64_t>(lengths.size())}, lengths);
  if (lengths.empty() && (encoder.length_input >= 0 || encoder.proof.lengths.parameter >= 0)) {
    BW_ASSIGN_OR_RETURN(own_lengths,
                        LengthTensor(v1::LENGTH_INPUT_LENGTHS, ops::DType::kI64, sources.dim(0),
                                     sources.dim(encoder.length_axis)));
  }
  if (encoder.length_input >= 0) {
    // A mask hides nothing: what is computed of the positions behind a source's end is not read.
    const auto index = static_cast<size_t>(encoder.length_input);
    const ops::DType dtype = graph.node(graph.parameters[index]).outputs[0].dtype;
    BW_ASSIGN_OR_RETURN(inputs[index],
                        encoder.length_kind == v1::LENGTH_INPUT_LENGTHS
                            ? Convert(own_lengths, dtype)
                            : LengthTensor(encoder.length_kind, dtype, sources.dim(0),
                                           sources.dim(encoder.length_axis)));
  }
  if (encoder.proof.lengths.parameter >= 0) {
    inputs[static_cast<size_t>(encoder.proof.lengths.parameter)] = std::move(own_lengths);
  }
  // Members of an ensemble may take ids in another type than the model's own encoder.
  const ops::DType dtype = encoder.source_info().dtype;
  if (dtype != sources.dtype() && ops::IsInteger(dtype) && ops::IsInteger(sources.dtype())) {
    BW_ASSIGN_OR_RETURN(sources, Convert(sources, dtype));
  }
  inputs[static_cast<size_t>(encoder.input)] = std::move(sources);
  return inputs;
}

namespace {

// Indices [begin, begin + count) of an axis.
Tensor TakePart(const Tensor& tensor, int axis, int64_t begin, int64_t count) {
  ops::Shape shape = tensor.shape();
  shape[static_cast<size_t>(axis)] = count;
  Tensor taken(tensor.dtype(), shape);
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) {
    outer *= tensor.dim(i);
  }
  const int64_t index_bytes =
      taken.num_bytes() == 0 ? 0 : taken.num_bytes() / outer / count;  // of one index
  for (int64_t i = 0; i < outer && index_bytes > 0; ++i) {
    std::memcpy(taken.mutable_bytes() + i * count * index_bytes,
                tensor.bytes() + (i * tensor.dim(axis) + begin) * index_bytes,
                static_cast<size_t>(count * index_bytes));
  }
  return taken;
}

}  // namespace

Tensor TakeRow(const Tensor& tensor, int axis, int64_t row) {
  return TakePart(tensor, axis, row, 1);
}

Tensor TakeFront(const Tensor& tensor, int axis, int64_t length) {
  return TakePart(tensor, axis, 0, length);
}

absl::StatusOr<Tensor> ResultOfSource(const EncoderPart& encoder, absl::Span<const Tensor> encoded,
                                      int64_t num_sources, int64_t row, int result,
                                      const std::string& user, int64_t source_length) {
  const auto index = static_cast<size_t>(result);
  const int axis = num_sources > 1 ? encoder.proof.result_axes[index] : -1;
  if (axis >= 0 && (encoded[index].rank() <= axis || encoded[index].dim(axis) != num_sources)) {
    return absl::InternalError(
        absl::StrCat("encoder output for '", user, "' is ", ops::ToString(encoded[index].shape()),
                     " for ", num_sources, " sources; axis ", axis, " must count them"));
  }
  Tensor own = axis < 0 ? encoded[index] : TakeRow(encoded[index], axis, row);
  const ops::LengthProof& lengths = encoder.proof.lengths;
  const int positions =
      num_sources > 1 && source_length >= 0 && lengths.holds ? lengths.result_axes[index] : -1;
  if (positions >= 0 && positions < own.rank()) {
    const int64_t length = source_length * lengths.result_factors[index];
    own = own.dim(positions) > length ? TakeFront(own, positions, length) : own;
  }
  return own;
}

absl::StatusOr<std::vector<Tensor>> DecoderInputs(const DecoderPart& decoder,
                                                  absl::Span<const Tensor> encoded,
                                                  int64_t num_sources, int64_t row,
                                                  int64_t source_length) {
  std::vector<Tensor> inputs;
  for (const DecoderInput& input : decoder.inputs) {
    if (input.encoder_output < 0) {
      BW_ASSIGN_OR_RETURN(Tensor own, OwnInput(decoder, input, source_length));
      inputs.push_back(std::move(own));
      continue;
    }
    BW_ASSIGN_OR_RETURN(Tensor value,
                        ResultOfSource(*decoder.encoder, encoded, num_sources, row,
                                       input.encoder_output, input.name, source_length));
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

// Says where each input of a decoder comes from (FindDecoderInputs): a constant, the source's
// length or a mask, the encoder's result of the same or a configured name, or the request. All
// faults are collected: results that the encoder does not have, types and shapes that cannot agree
// (Disagree; "are the two files of one model?"), names in the configuration that fit no input.
//
// States that start with zeros are made once and shared by all requests.

namespace {

using ops::Graph;
using ops::ValueId;

const v1::StateConfig* FindState(const v1::DecoderConfig& config, const std::string& input) {
  for (const v1::StateConfig& state : config.states()) {
    if (state.input() == input) {
      return &state;
    }
  }
  return nullptr;
}

// Number of the encoder's result of that name; -1 if missing.
int FindEncoderOutput(const Graph& encoder, const std::string& name) {
  for (size_t i = 0; i < encoder.results.size(); ++i) {
    if (PortName(encoder, encoder.results[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::string NamesOfResults(const Graph& encoder) {
  return absl::StrCat("'",
                      absl::StrJoin(encoder.results, "', '",
                                    [&](std::string* out, int node) {
                                      absl::StrAppend(out, PortName(encoder, node));
                                    }),
                      "'");
}

// Whether no value can have both types and shapes: the types differ, or the ranks, or extents that
// both graphs fix.
bool Disagree(const ops::ValueInfo& given, const ops::ValueInfo& taken, bool layers_first) {
  if (given.dtype != taken.dtype) {
    return true;
  }
  if (!given.shape.has_rank() || !taken.shape.has_rank()) {
    return false;
  }
  ops::Shape from = given.shape.dims();
  if (layers_first && from.size() > 1) {
    std::swap(from[0], from[1]);
  }
  const ops::Shape& to = taken.shape.dims();
  return !std::equal(from.begin(), from.end(), to.begin(), to.end(), [](int64_t x, int64_t y) {
    return x == y || x == ops::PartialShape::kDynamic || y == ops::PartialShape::kDynamic;
  });
}

// The number of the encoder's result that a decoder's input reads; -1 with a fault if there is no
// such result.
int ReadEncoderOutput(const Graph& encoder, const Graph& graph, const DecoderInput& input,
                      const std::string& name, std::vector<std::string>& faults) {
  const int found = FindEncoderOutput(encoder, name);
  if (found < 0) {
    faults.push_back(absl::StrCat("decoder input '", input.name, "' reads encoder output '", name,
                                  "', which the encoder does not have; it has ",
                                  NamesOfResults(encoder)));
    return found;
  }
  const int result = encoder.results[static_cast<size_t>(found)];
  const ops::ValueInfo& given = encoder.info(encoder.node(result).inputs[0]);
  const ops::ValueInfo& taken = graph.node(input.node).outputs[0];
  if (Disagree(given, taken, input.layers_first)) {
    faults.push_back(absl::StrCat("decoder input '", input.name, "' is ", Name(taken.dtype),
                                  taken.shape.ToString(), ", encoder output '", name, "' ",
                                  Name(given.dtype), given.shape.ToString(),
                                  "; are the two files of one model?"));
  }
  return found;
}

// A name in the configuration that fits nothing is a mistake, not a preference.
void CheckConfiguredNames(const v1::DecoderConfig& config, const DecoderPart& decoder,
                          std::vector<std::string>& faults) {
  const auto check = [&](absl::string_view field, const std::string& name) {
    const bool known = std::any_of(decoder.inputs.begin(), decoder.inputs.end(),
                                   [&](const DecoderInput& input) { return input.name == name; });
    if (!known) {
      faults.push_back(absl::StrCat(field, ": the decoder has no input '", name, "'"));
    }
  };
  for (const v1::StateConfig& state : config.states()) {
    check("decoder.states", state.input());
  }
  for (const v1::MemoryConfig& memory : config.memory()) {
    check("decoder.memory", memory.input());
  }
}

}  // namespace

absl::Status FindDecoderInputs(const v1::DecoderConfig& config, DecoderPart& decoder) {
  const Graph& graph = decoder.decoder;
  std::vector<std::string> faults;
  for (const int node : decoder.input_nodes) {
    DecoderInput input;
    input.name = PortName(graph, node);
    input.node = node;
    const auto carried =
        std::find(decoder.state_values.begin(), decoder.state_values.end(), ValueId{node, 0});
    const bool counts = absl::c_linear_search(decoder.count_nodes, node);
    input.is_state = carried != decoder.state_values.end() || counts;
    if (input.is_state && !counts) {
      input.growing_axis =
          decoder.body->growing_axis(static_cast<size_t>(carried - decoder.state_values.begin()));
    }
    input.has_own_start = input.growing_axis >= 0 || counts;
    input.layers_first = std::find(decoder.moved_states.begin(), decoder.moved_states.end(),
                                   input.name) != decoder.moved_states.end();
    std::string encoder_output = input.name;
    if (const v1::StateConfig* state = FindState(config, input.name)) {
      input.has_constant = state->has_constant();
      input.constant = state->constant();
      if (!state->encoder_output().empty()) {
        encoder_output = state->encoder_output();
      }
    }
    for (const v1::MemoryConfig& memory : config.memory()) {
      if (memory.input() == input.name) {
        if (!memory.encoder_output().empty()) {
          encoder_output = memory.encoder_output();
        }
        input.length_kind = memory.length_kind();
      }
    }
    const bool given = input.has_constant || input.length_kind != v1::LENGTH_INPUT_NONE;
    if (!given && decoder.encoder != nullptr) {
      input.encoder_output =
          ReadEncoderOutput(decoder.encoder->model->graph(), graph, input, encoder_output, faults);
    }
    decoder.inputs.push_back(input);
  }
  // States of zeros may be large, and are the same for all requests. If one cannot be made,
  // requests that need it get the error.
  for (DecoderInput& input : decoder.inputs) {
    if (!input.has_constant) {
      continue;
    }
    absl::StatusOr<ops::Tensor> made = ConstantInput(decoder, input);
    if (made.ok()) {
      input.constant_tensor = *std::move(made);
    }
  }
  CheckConfiguredNames(config, decoder, faults);
  return faults.empty() ? absl::OkStatus() : Invalid(absl::StrJoin(faults, "; "));
}

}  // namespace beamwright::engine
