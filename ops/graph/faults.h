// All that is wrong with a graph. InferGraph (ops/graph/inference.h) reports it in one error, of up
// to 20 nodes: behind a fault it goes on with what the file declares, and a node that reads a value
// of which nothing is known is not judged.
#ifndef BEAMWRIGHT_OPS_GRAPH_FAULTS_H_
#define BEAMWRIGHT_OPS_GRAPH_FAULTS_H_

#include "ops/graph/operator.h"

namespace beamwright::ops {

// What is wrong apart from operators that are not known: those, too, are passed over with what
// hangs on them. OK if that is nothing.
absl::Status FaultsBesideUnknown(Graph graph, const OperatorSet& operators);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_FAULTS_H_
