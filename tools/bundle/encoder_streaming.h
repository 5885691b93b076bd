// Encoders that toolkits export for streams, and whose files say how: a bundle that runs them chunk
// by chunk (docs/speech.md).
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STREAMING_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_STREAMING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_metadata.h"
#include "tools/bundle/encoder_states.h"

namespace beamwright::tools {

// What a file's metadata says of its chunks: T and decode_chunk_len of icefall's, window_size and
// chunk_shift of NeMo's as sherpa-onnx's scripts write them. None: nothing that makes sense.
struct ChunkFacts {
  int chunk = 0;
  int shift = 0;
  bool is_nemo = false;
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
