// What a node is called in the file that it came from, where the internal vocabulary has another
// name for it: ONNX's Max is a Maximum here, an LSTM layer a Loop. People know the former, so
// Describe (ops/graph/graph.h) names it. It is an attribute that no operator reads, so that copies
// of a node keep it.
#ifndef BEAMWRIGHT_OPS_GRAPH_FILE_OPERATOR_H_
#define BEAMWRIGHT_OPS_GRAPH_FILE_OPERATOR_H_

#include <string>

#include "ops/graph/graph.h"

namespace beamwright::ops {

inline constexpr char kFileOperator[] = "file_operator";

// Nodes `begin` and later of the graph were made of one of `type`, those in bodies of the loops
// among them too.
void SetFileOperator(const std::string& type, size_t begin, Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_FILE_OPERATOR_H_
