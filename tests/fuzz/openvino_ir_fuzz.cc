// The IR reader and all that is done with a graph before it runs: whatever the bytes, findings or
// an error.
#include "tests/fuzz/graph_input.h"
#include "tools/graph/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::StatusOr<beamwright::ops::Graph> graph =
      beamwright::ops::GraphOfIr({reinterpret_cast<const char*>(data), size});
  if (graph.ok()) {
    beamwright::ops::CheckGraph(*std::move(graph));
  }
  return 0;
}
