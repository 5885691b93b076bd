// Runs of a graph: what `beamwright-graph run` and `beamwright-graph bench` do, and the comparison
// of outputs with those that a graph gave where it was trained.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_RUN_H_
#define BEAMWRIGHT_TOOLS_GRAPH_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/operator.h"
#include "ops/loop/model.h"
#include "ops/numpy/npz.h"

namespace beamwright::ops {

// What `beamwright-graph run` does: tensors by name into a model, and its results by name.

// The tensors in the order of the graph's parameters. InvalidArgument names every input that is
// missing, not known or of another type or shape, all at once, and the inputs that there are.
absl::StatusOr<std::vector<Tensor>> OrderInputs(const Graph& graph, const TensorMap& inputs);

// Runs the model once. Names: UniquePortNames.
absl::StatusOr<TensorMap> RunModel(const Model& model, const ExecutionContext& context,
                                   const TensorMap& inputs);

// Compares a graph's outputs with those that it gave where it was trained.

struct Agreement {
  std::string output;
  double max_absolute =
      0;  // largest |ours - expected|; infinite where one alone is NaN or infinite
  double max_relative = 0;  // the same, divided by the largest |expected| of the output
  bool agrees = false;  // integers and booleans: equal; floats: max_relative <= kReplayTolerance
};

// Sums in another order differ in the last digits; a wrong weight or gate does in the first.
inline constexpr double kReplayTolerance = 1e-3;

// Runs the model on `inputs` and compares its outputs with those of `expected`, which may be some
// of them. InvalidArgument: RunModel's errors; an expected output that the model lacks, or another
// type or shape.
absl::StatusOr<std::vector<Agreement>> Replay(const Model& model, const TensorMap& inputs,
                                              const TensorMap& expected);

// "logits: largest difference 2.4e-07, relative 1.1e-06: agrees".
std::string ToString(const Agreement& agreement);

// What `beamwright-graph bench` does: times runs of a graph on made-up inputs.

struct BenchCase {
  // Unknown extents of axes that count rows: first axes, and the second ones of states [layers,
  // rows, ...] where the layers are known and other inputs leave their first axis open.
  int64_t batch = 1;
  int64_t length = 16;  // all other unknown extents
  int threads = 1;
};

struct BenchResult {
  BenchCase inputs;
  int64_t runs = 0;  // after one that is not counted
  double min_ms = 0;
  double median_ms = 0;
  double max_ms = 0;
};

// Runs the model for `seconds`, once at least. Inputs are floats in [-1, 1] from a fixed seed;
// integers are 0 (valid as ids, whatever they index) or, where the name says so, the length; masks
// and booleans are true. InvalidArgument names an input whose rank is unknown, or that is too
// large.
absl::StatusOr<BenchResult> BenchModel(const Model& model, const BenchCase& inputs, double seconds);

// The same on these inputs, one for each parameter; the result's batch and length are 0.
absl::StatusOr<BenchResult> BenchModel(const Model& model, const std::vector<Tensor>& inputs,
                                       int threads, double seconds);

// A table, or a JSON array of objects with the fields of BenchResult.
std::string BenchText(const std::vector<BenchResult>& results);
std::string BenchJson(const std::vector<BenchResult>& results);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_RUN_H_
