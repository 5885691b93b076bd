// Tokens that a graph takes one-hot, as Keras' sequence-to-sequence examples have them: floats
// [rows, .., tokens] with a one at the token. A search and a tokeniser speak of ids.
#ifndef BEAMWRIGHT_OPS_DECODER_ONE_HOT_H_
#define BEAMWRIGHT_OPS_DECODER_ONE_HOT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// The number of tokens that a Parameter may take one-hot: the extent of its last axis. 0: it takes
// none so, for it is not of floats, or its shape or that extent is not known.
int64_t OneHotTokens(const Graph& graph, int parameter);

// Makes that Parameter (node index) take ids, i64 without the last axis. The rest of the graph
// reads what it read before. Node indices change; those of graph.parameters keep their order.
void TakeIds(Graph& graph, int parameter);

// A decoder may begin with a vector of zeros: an id behind those of its tokens, as OneHot reads it.
// Gives that id a score, `score`, behind the others of the Result `name` (the only one, if empty).
// The graph is as InferGraph leaves it, or it stays as it is.
absl::Status AddScoreOfBegin(Graph& graph, const std::string& name, float score);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_ONE_HOT_H_
