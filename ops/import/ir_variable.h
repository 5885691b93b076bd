// ReadValue and Assign (opset 3 and 6): a variable that outlives a run. Its state becomes an input
// and an output of the graph, so that the caller keeps the state, as a search must, which
// drops and repeats it (docs/graph-files.md, 'Variables'). Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_VARIABLE_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_VARIABLE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/ir_net.h"

namespace beamwright::ops {

bool IsReadValue(const IrLayer& layer);
bool IsAssign(const IrLayer& layer);

// The variables of a net while it is translated.
class IrVariables {
 public:
  // Appends the Parameter that stands for `layer`, a ReadValue with these inputs, and a Result with
  // its initial value if it has one; its value.
  absl::StatusOr<ValueId> Read(const IrLayer& layer, const std::vector<ValueId>& inputs,
                               Graph& graph);
  // Appends the Result that stands for `layer`, an Assign; the value assigned.
  absl::StatusOr<ValueId> Write(const IrLayer& layer, const std::vector<ValueId>& inputs,
                                Graph& graph);

  // To be added behind the graph's own, in this order.
  const std::vector<int>& parameters() const { return parameters_; }
  const std::vector<int>& results() const { return results_; }

 private:
  absl::flat_hash_set<std::string> read_;
  absl::flat_hash_set<std::string> written_;
  std::vector<int> parameters_;
  std::vector<int> results_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_VARIABLE_H_
