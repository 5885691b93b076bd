// What inference does with types and shapes that come from two sides: a declaration and what was
// found, two branches, a body and what is around it. Private to graph/.
#ifndef BEAMWRIGHT_OPS_GRAPH_VALUE_INFO_H_
#define BEAMWRIGHT_OPS_GRAPH_VALUE_INFO_H_

#include "absl/status/statusor.h"
#include "ops/graph/operator.h"

namespace beamwright::ops {

// The type and shape that both declarations allow; InvalidArgument naming both if nothing is
// allowed. `what` names the place.
absl::Status MergeInfo(absl::string_view what, const ValueInfo& declared, ValueInfo& inferred);

// The narrowest shape that holds both: unknown where they differ.
PartialShape JoinShapes(const PartialShape& a, const PartialShape& b);

// Sets a Parameter of a body (index into Graph::parameters) to what is given from outside, as far
// as its declaration allows.
absl::Status SetParameter(absl::string_view what, Graph& body, size_t parameter, DType dtype,
                          const PartialShape& shape);

// The value that a result of a body returns (index into Graph::results).
const ValueInfo& ResultInfo(const Graph& body, int index);

// False only if a value of this shape cannot have exactly one element.
bool MayHaveOneElement(const PartialShape& shape);

// A condition, and whether it is known at load.
struct KnownCondition {
  bool known = false;
  bool value = false;
};
// InvalidArgument unless `input` may be a boolean of one element.
absl::StatusOr<KnownCondition> ReadCondition(absl::string_view what, const InputInfo& input);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_VALUE_INFO_H_
