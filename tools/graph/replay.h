// Compares a graph's outputs with those that it gave where it was trained.
#ifndef BEAMWRIGHT_TOOLS_GRAPH_REPLAY_H_
#define BEAMWRIGHT_TOOLS_GRAPH_REPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/loop/model.h"
#include "ops/numpy/npz.h"

namespace beamwright::ops {

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

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_REPLAY_H_
