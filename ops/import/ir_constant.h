// Layers of an IR file that hold values: constants, which are ranges of the weights file, and
// variables, which outlive a run. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_CONSTANT_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_CONSTANT_H_

#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/import_options.h"
#include "ops/import/ir_net.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// The constants of an IR file: Const layers are ranges of bytes of the weights file, which become
// tensors.

// Reads constants out of the weights, since nothing there is aligned. Layers that name the same
// bytes with the same type share one tensor, and what is read altogether is bounded by a small
// multiple of the file: overlapping ranges of a hostile file cannot ask for more.
class IrWeights {
 public:
  // The .bin file, or the reason why it is missing.
  explicit IrWeights(absl::StatusOr<InputFilePtr> file) : file_(std::move(file)) {}

  // The tensor of a Const layer: type and shape from <data> or, without, from its output port.
  // Errors (without the layer's name): no or contradicting type or shape, a range outside the
  // weights or of another size than the shape's, no weights.
  absl::StatusOr<Tensor> Read(const IrLayer& layer);

 private:
  absl::StatusOr<Tensor> Take(int64_t offset, DType dtype, const Shape& shape);

  absl::StatusOr<InputFilePtr> file_;
  absl::flat_hash_map<std::tuple<int64_t, int64_t, DType>, Tensor> taken_;
  int64_t taken_bytes_ = 0;
};

// Type and shape of a Parameter or Const: <data element_type shape>, else the only output port,
// where no dims mean a scalar. An error if there is no type, or if both places contradict.
absl::StatusOr<ValueInfo> ReadDeclaredInfo(const IrLayer& layer);

// ReadValue and Assign (opset 3 and 6): a variable that outlives a run. Its state becomes an input
// and an output of the graph, so that the caller keeps the state, as a search must, which
// drops and repeats it (docs/graph-files.md, 'Variables').

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

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_CONSTANT_H_
