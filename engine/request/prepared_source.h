// A caller's source as tensors, checked against the model.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_PREPARED_SOURCE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_PREPARED_SOURCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/parts.h"
#include "engine/request/saved_state.h"

namespace beamwright::engine {

// A source in the form that the encoder, or the decoder, takes.
struct PreparedSource {
  int source_length = 0;
  int unpadded_length = 0;   // of text and ids: source_length without pad_to_length
  std::vector<int32_t> ids;  // of text and ids
  std::vector<int32_t> unknown_positions;
  std::optional<ops::Tensor> encoder_input;  // [1, ...] as the encoder's Parameter
  std::vector<ops::Tensor> further_inputs;   // in the order of Parts::wanted_inputs
  // Where there is no encoder: [1, ...] per parts.inputs, or the frames, [1, frames, width].
  std::vector<ops::Tensor> decoder_inputs;
  // In place of those of decoder_inputs: what source.state brought.
  std::optional<SavedState> state;
};

// Tokenises or converts a source and checks it against the model: InvalidArgument naming the field.
// state_key: of EngineOptions, for source.state.
absl::StatusOr<PreparedSource> PrepareSource(const DecodeModel& model, const v1::Source& source,
                                             absl::string_view state_key = {});

// The same of some frames of a stream, however few: a least length is that of the whole source.
absl::StatusOr<PreparedSource> PreparePiece(const DecodeModel& model, const v1::Tensor& features);

// The same of features that are a tensor [1, ...] already, and finite: what sound became. is_whole:
// they are a source, not a piece of one. For models that have an encoder or are searched by frames.
absl::StatusOr<PreparedSource> PrepareFeatures(const DecodeModel& model, ops::Tensor features,
                                               bool is_whole);

// Whether an empty source is enough: there is no encoder, and every state starts from a constant,
// as those of language models do.
bool TakesEmptySources(const DecodeModel& model);

// The longest source that the model, or else anything here, takes.
int MaxSourceLength(const DecodeModel& model);
// The shortest: limits.min_source_length, which is at least what the self-check found. At least 1.
int MinSourceLength(const DecodeModel& model);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_PREPARED_SOURCE_H_
