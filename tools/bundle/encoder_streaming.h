// Encoders that toolkits export for streams, and bundles that run them chunk by chunk
// (docs/speech.md): those whose files say how, and those whose states have to be found.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STREAMING_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STREAMING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_outline.h"

namespace beamwright::tools {

// Encoders that toolkits export for streams: states go in and come out, and a call reads one chunk.
// Where the states are those of recurrent layers and a call may be of any length, a call over the
// whole source is the same with states of zeros; so it is with encoders that are called with zeros,
// forward(input, hidden). Others are run chunk by chunk, if their file says how.

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

// Encoders that toolkits export for streams, and whose files say how: a bundle that runs them chunk
// by chunk (docs/speech.md).

// What a file's metadata says of its chunks: T and decode_chunk_len of icefall's, window_size and
// chunk_shift of NeMo's as sherpa-onnx's scripts write them, chunk_size, subsampling and right
// context of WeNet's. None: nothing that makes sense.
struct ChunkFacts {
  int chunk = 0;
  int shift = 0;
  bool is_nemo = false;
  const char* keys = "";  // of the metadata
};
std::optional<ChunkFacts> FindChunks(const ops::Metadata& metadata);

// The bundle's words for it. `reasons` gets a line for each guess.
v1::StreamingConfig StreamingConfigOf(const ChunkFacts& facts,
                                      absl::Span<const EncoderState> states,
                                      std::vector<std::string>& reasons);

// The axis of the source `input` on which its frames are: 2 of [rows, width, chunk], else 1.
int ChunkAxis(const ops::Graph& encoder, const std::string& input, int chunk);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STREAMING_H_
