// States as data: what a recurrent model knows behind some tokens, as bytes that leave the engine
// and come back, so that a conversation goes on anywhere. docs/decoding.md, 'States'.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/parts.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// Behind n tokens, the begin token first: the model has read all but the last of them, which the
// next step reads. So the next request can begin without a token.
struct SavedState {
  int32_t next_token = 0;
  int64_t num_read = 0;
  std::vector<ops::Tensor> states;  // [1, ...] each, in the order of the body's carried()
  std::string signature;  // of one that was read: what distinguishes it from others of the model

  int64_t num_bytes() const;
};

// Tensors with separate buffers: the next step may write into those of a row.
std::vector<ops::Tensor> CopyStates(const std::vector<ops::Tensor>& states);

// InvalidArgument naming `field`: the model has an encoder, or states that grow, that have no
// constant start, or that are not all that a step reads.
absl::Status CheckPortable(const DecodeModel& model, absl::string_view field);

// For ReadState of the same version of the model in the same numerics class, signed with `key`.
std::string WriteState(const DecodeModel& model, absl::string_view key, const SavedState& state);

// InvalidArgument naming source.state: it was changed or has another key; it is of another model,
// version or numerics class; the model has no portable states.
absl::StatusOr<SavedState> ReadState(const DecodeModel& model, absl::string_view key,
                                     absl::string_view bytes);

// A key for an engine that was given none.
std::string DrawStateKey();

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_SAVED_STATE_H_
