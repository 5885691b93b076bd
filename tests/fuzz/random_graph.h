// A graph out of bytes, for fuzzing execution: every choice (operator, inputs, constants,
// attributes, shapes, bodies) is read from the input, so that the fuzzer steers it, and most graphs
// get past inference.
#ifndef BEAMWRIGHT_TESTS_FUZZ_RANDOM_GRAPH_H_
#define BEAMWRIGHT_TESTS_FUZZ_RANDOM_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// Reads small numbers off the front; zeros when there is nothing left.
class ByteSource {
 public:
  explicit ByteSource(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  uint8_t Byte() { return empty() ? 0 : bytes_[at_++]; }
  // In [0, bound); 0 if bound is 0.
  size_t Below(size_t bound) { return bound == 0 ? 0 : Byte() % bound; }

 private:
  absl::Span<const uint8_t> bytes_;
  size_t at_ = 0;
};

struct RandomGraph {
  Graph graph;
  std::vector<Tensor> inputs;        // one per Parameter
  std::vector<Tensor> other_inputs;  // the same with other values, and extents where these are open
};

RandomGraph MakeRandomGraph(ByteSource& source);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_FUZZ_RANDOM_GRAPH_H_
