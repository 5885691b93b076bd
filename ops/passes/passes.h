// Passes: rewrites of graphs. Each has one signature, one file of this folder that opens with the
// graph before and after, and a place in one of the ordered lists below. Analyses, which change
// nothing, are in ops/compile.
//
// A pass takes a graph and what is inferred of it, as InferGraph leaves them, and leaves them so.
// It returns whether it changed anything. What the graph computes stays, to the bit, unless the
// declaration says otherwise; errors are those of InferGraph on what has become known.
#ifndef BEAMWRIGHT_OPS_PASSES_PASSES_H_
#define BEAMWRIGHT_OPS_PASSES_PASSES_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/compile/extents.h"
#include "ops/compile/row_proof.h"
#include "ops/graph/graph.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

struct DecoderContext;  // ops/decoder/step_inputs.h

// Nodes of a state of a step graph: a Parameter, and the Result that carries its next value.
struct CarriedNodes {
  int parameter = -1;
  int result = -1;
};

// Of an encoder, each of whose Parameters counts sources on its first axis.
struct EncoderRows {
  const RowInputs& inputs;
  RowProof& proof;                     // as of the graph after each pass
  const Graph* as_exported = nullptr;  // of one that may be for a batch of 1 (IsForOneRow)
};

// For the passes that FoldShapes repeats.
struct ShapeFacts {
  const Extents& extents;  // of the graph as it is
  const Extent* rows;      // the symbol of a search's rows; null: there is no search
  bool for_one_row;        // what the graph says of its shapes, it says of one row
};

// What passes know beyond the graph. Each pass says which fields it reads.
struct PassContext {
  const OperatorSet& operators;
  // FoldShapes: for each Parameter the axis that counts rows, -1 for none; these extents are taken
  // for equal, and what the graph computes is the same only then. Empty: nothing is taken for
  // equal.
  std::vector<int> row_axes = {};
  // FoldShapes: a batch of 1 that the file declares stays; otherwise it is opened to any number of
  // rows, as a search needs it.
  bool keeps_batch = false;
  // KeepComputed: caches that start empty. JoinStateUpdates: all states.
  std::vector<CarriedNodes> states = {};
  EncoderRows* encoder = nullptr;           // null: no encoder whose sources share a batch
  const DecoderContext* decoder = nullptr;  // for the passes of ops/decoder
  const ShapeFacts* shapes = nullptr;       // for the passes that FoldShapes repeats
};

using Pass = absl::StatusOr<bool> (*)(Graph& graph, GraphInfo& info, const PassContext& context);

// Runs passes in their order; whether any changed anything.
absl::StatusOr<bool> RunPasses(absl::Span<const Pass> passes, Graph& graph, GraphInfo& info,
                               const PassContext& context);

// The list for a whole graph, encoders among them (Model::Compile). Those for decoders are in
// ops/decoder/decoder_form.cc.
absl::Span<const Pass> EncoderPasses();

// Shapes. FoldShapes runs the others, its own lists, until nothing changes.
absl::StatusOr<bool> FoldShapes(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> DropDeadOutputs(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> SimplifyStates(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> ScaleBeforeDropping(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> FoldConstants(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> DropNeedlessRepeat(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> SplitJoinedAxes(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> SplitJoinedTransposes(Graph& graph, GraphInfo& info,
                                           const PassContext& context);
absl::StatusOr<bool> PickByRow(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> FindRelativeShifts(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> AlignReshapes(Graph& graph, GraphInfo& info, const PassContext& context);

// Rows and lengths of an encoder's sources (context.encoder; no change without it).
absl::StatusOr<bool> TakeScalesByItem(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> OpenBatch(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> GiveRowsLengths(Graph& graph, GraphInfo& info, const PassContext& context);

// Fewer and larger operators. Bodies of loops and branches stay as they are where their loop does.
absl::StatusOr<bool> HoistInputProducts(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> DropPartAxes(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> DropLayerTransposes(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinScaledProducts(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinLayers(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinSoftPlus(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinElementwise(Graph& graph, GraphInfo& info, const PassContext& context);

// Steps of decoders. KeepComputed changes what Parameters and Results hold; JoinStateUpdates takes
// sums in another order, so that results differ in their last bits.
absl::StatusOr<bool> DropBeamIndex(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> KeepComputed(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinStateUpdates(Graph& graph, GraphInfo& info, const PassContext& context);

// The context in which FoldShapes folds an encoder.
PassContext SourcesContext(const Graph& graph, const OperatorSet& operators);
// Row axes of a decoder: 0 of every Parameter, but of the tokens' (index into graph.parameters)
// `token_axis`.
std::vector<int> DecoderRowAxes(const Graph& graph, int token_parameter, int token_axis);
// Whether a Parameter declares one row alone.
bool IsForOneRow(const Graph& graph);
// Nodes of a loop's body whose product HoistInputProducts computes before the loop; empty without
// any.
std::vector<int> HoistedProducts(const Loop& loop, const GraphInfo& body_info);
// TakeScalesByItem for the body of a step, whose rows are items; `info`: of the body. A value whose
// rows cannot be separated keeps its scale; such a step runs row by row.
void TakeScalesByRow(const GraphInfo& info, const OperatorSet& operators, Loop& loop);

// For passes. Puts what a pass made in the place of its graph, with what is inferred of it;
// std::nullopt: the pass changed nothing.
absl::StatusOr<bool> TakeChanged(std::optional<Graph> changed, Graph& graph, GraphInfo& info,
                                 const PassContext& context);
// What TakeScalesByItem does to the sources of `graph`, and whether; the proof of the graph after.
RowProof ScaleByItem(const GraphInfo& info, const OperatorSet& operators, const RowInputs& inputs,
                     Graph& graph, bool& changed);
// Makes inferred shapes unknown: they say what is inferred anyway, or the extent that the batch had
// when the graph was exported.
void ForgetShapes(Graph& graph);

// Passes for convolutions of encoders, of pictures above all.

// Results differ from those of the graph in their last bits.
absl::StatusOr<bool> FoldNorms(Graph& graph, GraphInfo& info, const PassContext& context);
absl::StatusOr<bool> JoinConvolutions(Graph& graph, GraphInfo& info, const PassContext& context);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_PASSES_PASSES_H_
