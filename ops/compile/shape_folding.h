// What a graph computes about its own shapes, replaced by what it comes to (ops/compile/extents.h):
//
// * integers that are numbers whatever the inputs are become constants;
// * a Reshape or Broadcast whose target is computed gets a constant one, in which 0 (or 1) keeps an
//   extent of the data and -1 stands for the one that is open,
//   by way of axes of 1 where two are;
// * layers on joined axes, [time * batch, width], work on the axes apart;
// * axes that are joined for a Transpose and come apart behind it are transposed apart;
// * a Slice that takes all of its data goes, one that takes some axes whole keeps the others;
// * a ScatterUpdate that writes over all of its data goes;
// * masks that come to one number everywhere become that number, and go where it is added and zero;
// * so do the indices of a MaxPool that nothing reads;
// * what each row picks by its own number is picked with the rows as a batch axis;
// * what attention picks by relative positions is one node, on the axes apart;
// * an integer product with a vector is scaled before it loses its axis;
// * states of loops that nothing changes, or that count, are states no more;
// * the branch of an If that is taken, where that is known, takes the If's place;
// * sequences whose lengths are proven to be the whole time axis lose their lengths, and so do
//   reversals;
// * for a search, a batch of 1 that Parameters declare and Reshapes write is opened to any number
//   of rows: what the graph computes of one row, it computes of each.
//
// Exports are full of such code, and none of it can be looked through by the rules of operators.
// The graph computes the same for all inputs that it took before.
#ifndef BEAMWRIGHT_OPS_COMPILE_SHAPE_FOLDING_H_
#define BEAMWRIGHT_OPS_COMPILE_SHAPE_FOLDING_H_

#include <vector>

#include "absl/status/status.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// `graph` and `info` as InferGraph leaves them, before and after. row_axes: for each Parameter the
// axis that counts a search's rows, -1 for none; these extents are taken for equal (and what the
// graph computes is the same only then). Empty: nothing is taken for equal. Errors are those of
// InferGraph on what has become known.
absl::Status FoldShapes(Graph& graph, GraphInfo& info, const OperatorSet& operators,
                        const std::vector<int>& row_axes = {});

// The same of an encoder, all of whose Parameters count sources on their first axis: these extents
// are taken for equal, and a batch that the file declares stays.
absl::Status FoldShapesOfSources(Graph& graph, GraphInfo& info, const OperatorSet& operators);

// Row axes of a decoder: 0 of every Parameter, but of the tokens' (index into graph.parameters)
// `token_axis`.
std::vector<int> DecoderRowAxes(const Graph& graph, int token_parameter, int token_axis);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SHAPE_FOLDING_H_
