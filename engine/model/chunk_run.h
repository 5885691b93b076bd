// A run of an encoder that reads chunk by chunk, over the next chunks of several streams together.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_CHUNK_RUN_H_
#define BEAMWRIGHT_ENGINE_MODEL_CHUNK_RUN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// The states of one stream, one for each of StreamingPart::states, [1, ...] each.
using StreamStates = std::vector<ops::Tensor>;

// What a stream begins with.
StreamStates StartStates(const StreamingPart& streaming);

// Memory that is kept from run to run. One for a thread, of one encoder.
struct ChunkWorkspace {
  ops::Model::Workspace model;
  std::vector<ops::Tensor> stacked;  // by state, of all streams of a run
};

// chunks: [streams, chunk, width], or as the graph reads them (StreamingPart::width_first). states:
// of each stream. outputs: the encoder's results for all of them. Several streams only where the
// encoder's rows are proven to stay apart.
absl::Status RunChunks(const ops::ExecutionContext& context, const EncoderPart& encoder,
                       ops::Tensor chunks, absl::Span<const StreamStates* const> states,
                       ChunkWorkspace& workspace, std::vector<ops::Tensor>& outputs);

// The states of stream `row` after a run over several. old: what it had before, whose memory is
// reused if it is not shared; may be empty. Internal: the graph wrote a state of another shape
// than it read.
absl::StatusOr<StreamStates> NextStates(const EncoderPart& encoder,
                                        absl::Span<const ops::Tensor> outputs, int64_t num_streams,
                                        int64_t row, StreamStates old);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_CHUNK_RUN_H_
