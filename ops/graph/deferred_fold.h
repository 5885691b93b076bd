// Large results of folding, in a DeferredScope: computed again when they are read, so that a weight
// that a file transposes, splits or converts is not held in both forms. Private to graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_DEFERRED_FOLD_H_
#define BEAMWRIGHT_OPS_GRAPH_DEFERRED_FOLD_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// `results` is what `kernel` has just made of `values`, all known at load. Those that are large and
// are not views become deferred constants (ops/tensor/deferred.h).
absl::Status DeferResults(std::shared_ptr<const Kernel> kernel,
                          absl::Span<const Tensor* const> values, std::vector<Tensor>& results);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_DEFERRED_FOLD_H_
