// Encoders that read chunk by chunk: what their bundle says of them, brought into the form in which
// chunks of many streams run together, and checked. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_STREAMING_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_STREAMING_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/parts.h"
#include "ops/graph/graph.h"

namespace beamwright::engine {

// A run of an encoder that reads chunk by chunk, over the next chunks of several streams together.

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

// Before `graph` is compiled: finds the states, fixes the extents that streaming.chunk and the
// states' shapes give, and makes states rows first. encoder.input is set. Fills
// encoder.streaming but for result_shapes. InvalidArgument, naming the field: what does not fit.
absl::Status PrepareStreaming(const v1::EncoderConfig& config, ops::Graph& graph,
                              EncoderPart& encoder);

// Once it is: every state must be written as it is read, and chunks that run together must give the
// bits that each gives alone, in two runs one after the other; where they do not, encoder.apart
// says why. Fills result_shapes. An error if the encoder fails on random chunks.
absl::Status CheckStreaming(const ops::ExecutionContext& context, EncoderPart& encoder);

// Frames that come of a chunk in result `result`, which `user` reads; frame_axis: where they are
// counted. InvalidArgument: none come.
absl::StatusOr<int64_t> FramesOfChunk(const EncoderPart& encoder, int result, int frame_axis);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_STREAMING_H_
