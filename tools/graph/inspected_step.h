// A decoder's step, compiled as the server does, for looking at: what `check` reports and `show`
// draws.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_INSPECTED_STEP_H_
#define BEAMWRIGHT_TOOLS_GRAPH_INSPECTED_STEP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ops/decoder/stepped_decoder.h"

namespace beamwright::ops {

struct InspectedStep {
  std::unique_ptr<const SteppedDecoder> decoder;  // null: the graph is not a decoder, because
  std::string no_step;
};

// `file`: as the importer leaves it. `inferred`: the same with types, shapes and folded extents. An
// error is what a server would refuse a decoder for.
absl::StatusOr<InspectedStep> InspectStep(Graph file, const Graph& inferred);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_INSPECTED_STEP_H_
