// What `beamwright-graph bench` does: times runs of a graph on made-up inputs.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_BENCH_H_
#define BEAMWRIGHT_TOOLS_GRAPH_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/loop/model.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_TOOLS_GRAPH_BENCH_H_
