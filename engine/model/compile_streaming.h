// Encoders that read chunk by chunk: what their bundle says of them, brought into the form in which
// chunks of many streams run together, and checked. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_STREAMING_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_STREAMING_H_

#include "absl/status/status.h"
#include "engine/model/parts.h"
#include "ops/graph/graph.h"

namespace beamwright::engine {

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
