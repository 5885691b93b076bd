// Scopes: every value of a loop body is computed at the widest scope that it depends on. What
// depends on constants alone is computed at load, what depends on a request's inputs once per
// request, and only what depends on a beam's state in each step (docs/architecture.md, 'Scopes').
#ifndef BEAMWRIGHT_OPS_COMPILE_SCOPES_H_
#define BEAMWRIGHT_OPS_COMPILE_SCOPES_H_

#include <vector>

#include "ops/graph/inference.h"

namespace beamwright::ops {

enum class Scope {
  kModel,    // constants
  kToken,    // the sliced input alone
  kRequest,  // inputs that stay the same while the loop runs
  kRow,      // carried states, or token and request together
};

// "model", "token", "request", "row".
absl::string_view Name(Scope scope);

// Scope of each node of the loop's body.
std::vector<Scope> FindScopes(const Loop& loop, const GraphInfo& body_info);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SCOPES_H_
