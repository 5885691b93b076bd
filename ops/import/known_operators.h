// The operators that importers infer types and shapes with. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_KNOWN_OPERATORS_H_
#define BEAMWRIGHT_OPS_IMPORT_KNOWN_OPERATORS_H_

#include "ops/graph/operator.h"

namespace beamwright::ops {

// Loops need no entry: their inference is the graph's own.
const OperatorSet& KnownOperatorSet();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_KNOWN_OPERATORS_H_
