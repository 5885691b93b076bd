// Predictor and joiner as one graph, and that graph cut into the parts of ops/decoder/transducer.h.
// Private to decoder/.
#ifndef BEAMWRIGHT_OPS_DECODER_TRANSDUCER_GRAPHS_H_
#define BEAMWRIGHT_OPS_DECODER_TRANSDUCER_GRAPHS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/decoder/transducer.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// One graph from tokens, states and a frame to scores. All count rows on their first axis, but for
// states that exports count on the second; indices are into graph.parameters and graph.results.
struct JoinedTransducer {
  Graph graph;
  GraphInfo info;
  std::vector<StepState> states;  // results 0, 1, ... are theirs
  int frame = -1;                 // the parameter that takes the encoder's frames
  int logits = -1;                // the last result
  Shape frame_shape;              // of that parameter
  int64_t frame_width = 0;
};

// Errors as CompileTransducer.
absl::StatusOr<JoinedTransducer> JoinTransducer(Graph predictor, std::optional<Graph> joiner,
                                                const TransducerPorts& ports,
                                                const TransducerOptions& options);

// A part, ready to be compiled.
struct TransducerPart {
  Graph graph;
  GraphInfo info;
};

struct TransducerParts {
  std::optional<TransducerPart> frames;
  TransducerPart predictor;  // results: those of the states, then what the joiner reads
  TransducerPart joiner;     // result 0: the scores
  std::vector<Transducer::Input> joiner_inputs;
};

// InvalidArgument: the scores do not depend on both, or the states on the frame. Unimplemented: a
// part can't be cut off.
absl::StatusOr<TransducerParts> CutTransducer(const JoinedTransducer& joined);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_TRANSDUCER_GRAPHS_H_
