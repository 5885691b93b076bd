// Encoders that toolkits export for streams: states go in and come out, and a call reads one chunk.
// Where the states are those of recurrent layers and a call may be of any length, a call over the
// whole source is the same with states of zeros; so it is with encoders that are called with zeros,
// forward(input, hidden). Others are run chunk by chunk, if their file says how
// (encoder_streaming.h).
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STATES_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::tools {

struct EncoderState {
  std::string input;
  std::string output;  // its next value, which goes with it; empty: nothing goes
};

// By names alone: `state0` and `new_state0`, `cache` and `cache_next`. Empty: it has none.
std::vector<EncoderState> FindEncoderStates(const ops::Graph& encoder);

// Of `forward(input, hidden)`: inputs by the names of states that a recurrent layer starts with.
// Outputs stay, a decoder may start from them. `source_input`, if not empty, is excluded.
std::vector<EncoderState> FindInitialStates(const ops::Graph& encoder,
                                            const std::string& source_input);

// InvalidArgument, if the encoder cannot run over a whole source at once: chunks of a fixed length,
// states that count, or caches of attention. `model_type`: what the file says it is; may be empty.
absl::Status CheckWholeSource(const ops::Graph& encoder, absl::Span<const EncoderState> states,
                              const std::string& model_type);

// The same ONNX file without these states: each begins as zeros, as many rows as the first of the
// other inputs has, also where the file declares 1. `encoder`: the file's graph. InvalidArgument:
// the file is no ONNX model, or a state's shape leaves more open than its rows.
absl::StatusOr<std::string> StartAtZero(const std::string& onnx, const ops::Graph& encoder,
                                        absl::Span<const EncoderState> states);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STATES_H_
