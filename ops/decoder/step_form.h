// Step graphs as exporters leave recurrent layers in them, brought into the form that rows of many
// requests can share: PyTorch's nn.LSTM and nn.GRU keep states [layers, rows, width], and read a
// single token as a sequence of length 1.
#ifndef BEAMWRIGHT_OPS_DECODER_STEP_FORM_H_
#define BEAMWRIGHT_OPS_DECODER_STEP_FORM_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// A state of a step graph: indices into graph.parameters and graph.results.
struct StepState {
  int parameter = -1;
  int result = -1;
  int rows_axis = 1;  // for MoveRowsFirst
};

// The axis on which a step graph's tokens count rows: 1 for [1, rows], as layers read that have the
// time first, else 0.
int TokenRowAxis(const PartialShape& tokens);

// Whether the Parameter of a state counts rows on its second axis: rank 3 or more, the first extent
// known and the second one not. `tokens` (an index into graph.parameters) must have an unknown
// extent, else nothing counts rows.
bool CountsRowsSecond(const Graph& graph, int tokens, int parameter);

// Gives states Parameters and Results with rows first: axis 0 and that of the rows, 1 of [layers,
// rows, ...], change places. Inside, transposes restore what the graph expects. Names stay. Types
// and shapes are to be inferred anew.
void MoveRowsFirst(Graph& graph, absl::Span<const StepState> states);

// The graph with the bodies of those loops in their places that are known to run exactly once, also
// inside other loops; none if there are no such loops. Types and shapes are to be inferred anew.
// `graph` as InferGraph leaves it; `info`: what it found, or null, and then a number of iterations
// counts as not known.
std::optional<Graph> InlineSingleIterations(const Graph& graph, const GraphInfo* info = nullptr);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_STEP_FORM_H_
