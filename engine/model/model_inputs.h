// What a model's graphs are given: where it comes from, the encoder, a constant, lengths or the
// caller, and the tensors themselves. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_MODEL_INPUTS_H_
#define BEAMWRIGHT_ENGINE_MODEL_MODEL_INPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// What a model's graphs are given: encoders the source, decoders what the encoder computed of it or
// what the bundle declares.

// The initial state of an input that starts from a constant, [1, ...]. InvalidArgument: the graph
// leaves an extent of it open.
absl::StatusOr<ops::Tensor> ConstantInput(const DecoderPart& decoder, const DecoderInput& input);

// What an input of `kind` holds for `rows` sources of `length` tokens: [rows] or [rows, length].
absl::StatusOr<ops::Tensor> LengthTensor(v1::LengthInput kind, ops::DType dtype, int64_t rows,
                                         int64_t length);

// The encoder's inputs for stacked sources, as its Parameters take them. `further`: a tensor for
// each of encoder.further_inputs, stacked as well. lengths: of each source, filled up behind it to
// the longest; empty: all are as long as the tensor.
absl::StatusOr<std::vector<ops::Tensor>> EncoderInputs(const EncoderPart& encoder,
                                                       ops::Tensor sources,
                                                       absl::Span<const ops::Tensor> further = {},
                                                       absl::Span<const int64_t> lengths = {});

// A further input that a request leaves out, for one source: its constant. Open extents get the
// source's length.
absl::StatusOr<ops::Tensor> ConstantInput(const EncoderPart& encoder, const FurtherInput& input,
                                          int64_t source_length);

// Result number `result` of a run of the encoder over `num_sources`, for source `row` of them
// alone; user: what an error names. source_length: of that source, if others may be longer.
absl::StatusOr<ops::Tensor> ResultOfSource(const EncoderPart& encoder,
                                           absl::Span<const ops::Tensor> encoded,
                                           int64_t num_sources, int64_t row, int result,
                                           const std::string& user, int64_t source_length = -1);

// The decoder's inputs (one per decoder.inputs) for source `row`, of `source_length` tokens, of a
// run of the encoder over `num_sources`.
absl::StatusOr<std::vector<ops::Tensor>> DecoderInputs(const DecoderPart& decoder,
                                                       absl::Span<const ops::Tensor> encoded,
                                                       int64_t num_sources, int64_t row,
                                                       int64_t source_length);

// Index `row` of an axis, which stays with extent 1.
ops::Tensor TakeRow(const ops::Tensor& tensor, int axis, int64_t row);
// Indices [0, length) of an axis.
ops::Tensor TakeFront(const ops::Tensor& tensor, int axis, int64_t length);

// Where what a decoder reads of a request comes from: the encoder, a constant, lengths, the caller.

// Fills decoder.inputs, for every Parameter of its graph but the token's, as the configuration
// says. InvalidArgument, with all that is wrong, if the encoder has no output of a name, one of
// another type or shape than the decoder reads, or the configuration names an input that the
// decoder does not have.
absl::Status FindDecoderInputs(const v1::DecoderConfig& config, DecoderPart& decoder);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_MODEL_INPUTS_H_
