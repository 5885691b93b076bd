// TensorIterator-1 and Loop-5: port map and back edges become the internal loop form. Private to
// import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_LOOP_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_LOOP_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

// If-8: a condition, two bodies and a port map for each.

// `condition`: its value if it is a constant. Rules and errors: docs/graph-files.md, 'Branches'.
// Errors come without the layer's name.
absl::StatusOr<If> TranslateIf(const IrLayer& layer, const Tensor& condition, IrImport& import);

struct IrLoop {
  Loop loop;
  // Number of iterations of a TensorIterator that slices nothing: the caller gives it to the loop
  // as one more input.
  std::optional<int64_t> trip_count;
};

// True for the layer types that iterate a body.
bool IsLoop(const IrLayer& layer);

// `inputs`: what the layer's input ports read. Rules and errors: docs/graph-files.md, 'Loops'.
// Errors come without the layer's name. Slices are resolved against extents later
// (ops/graph/body_maps.h); here only what no extent could mend is refused.
absl::StatusOr<IrLoop> TranslateLoop(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                     IrImport& import);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_LOOP_H_
