// If-8: a condition, two bodies and a port map for each. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_BRANCHES_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_BRANCHES_H_

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

// `condition`: its value if it is a constant. Rules and errors: docs/graph-files.md, 'Branches'.
// Errors come without the layer's name.
absl::StatusOr<If> TranslateIf(const IrLayer& layer, const Tensor& condition, IrImport& import);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_BRANCHES_H_
