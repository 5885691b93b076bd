// What the fuzz targets make of their bytes. Inputs are kept as files that people can make and
// read: an ONNX model as it is, an IR as its XML, a zero byte and its weights.
#ifndef BEAMWRIGHT_TESTS_FUZZ_GRAPH_INPUT_H_
#define BEAMWRIGHT_TESTS_FUZZ_GRAPH_INPUT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

absl::StatusOr<Graph> GraphOfIr(absl::string_view bytes);
// There are no files of external data.
absl::StatusOr<Graph> GraphOfOnnx(absl::string_view bytes);

// Small inputs for a graph of a file, one per Parameter: extents that it leaves open are `extent`,
// values count up from -1. InvalidArgument where an input would have more than `max_elements`.
absl::StatusOr<std::vector<Tensor>> InputsFor(const Graph& graph, int64_t extent,
                                              int64_t max_elements);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_FUZZ_GRAPH_INPUT_H_
