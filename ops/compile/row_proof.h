// Which rows the values of a whole graph or of a loop's body belong to, by the operators' row
// functions.
#ifndef BEAMWRIGHT_OPS_COMPILE_ROW_PROOF_H_
#define BEAMWRIGHT_OPS_COMPILE_ROW_PROOF_H_

#include <string>
#include <vector>

#include "ops/compile/scopes.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// RowProof: whether the rows of a whole graph (the sources of an encoder) stay apart, whatever they
// hold and however many there are: then what is computed for one of them is the same, bit for bit,
// alone and with others (docs/architecture.md, 'Rows'). It rests on the same rules of operators
// as the plan of a decoder's step; loops and branches are followed into their bodies.

// Whether rows may hold sequences of unequal length: then each is filled up behind its own end with
// whatever the graph takes, and what it is computed to is the same up to there, bit for bit, as if
// it were as long as all others, or alone (ops/passes/ragged_batches.cc).
struct LengthProof {
  bool holds = false;
  // Why not, with the node.
  std::string reason;
  // Index into graph.parameters: the length of each row, i64 [rows]. -1: the graph asks for none.
  // There it is even where the proof does not hold any more, for who found out otherwise.
  int parameter = -1;
  // If it holds, by Result: the axis that counts positions; -1: none, the result is of the sequence
  // as a whole. And how many elements of that axis belong to each position.
  std::vector<int> result_axes;
  std::vector<int64_t> result_factors;
};

struct RowProof {
  bool separable = false;
  // Why not, with the node.
  std::string reason;
  // If separable, by Result: the axis that counts rows; -1: the result is the same for all.
  std::vector<int> result_axes;
  // Found where it is asked for (RowInputs::length_axis).
  LengthProof lengths = {};
};

// What is known of the Parameters, each of which counts rows on its first axis. Indices into
// graph.parameters: each element of `lengths`, one for each row, is the extent of the second axis
// of `source`. -1: there are no such lengths.
struct RowInputs {
  int source = -1;
  int lengths = -1;
  // [rows, length of the source], of ones where there is something to read. -1: none.
  int mask = -1;
  // Of `source`: the axis that counts positions. 0: its rows are of one length in any case.
  int length_axis = 0;
};

// `graph` and `info` as InferGraph leaves them. `scales`, unless null: what each node with an
// item_axis of -1 - i, not decided yet, takes its scale of becomes (*scales)[i]
// (ops/passes/scales_by_item.cc).
RowProof ProveRowsApart(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                        const RowInputs& inputs = {}, std::vector<RowInfo>* scales = nullptr);

// Which rows of a step each value of a loop's body belongs to, by the operators' row functions
// (docs/architecture.md, 'Rows'): what planning a step over many rows rests on, and what computing
// a table of a step's values for every token does.

// By node of the body; its outputs share one.
std::vector<RowInfo> FindRows(const Loop& loop, const GraphInfo& body_info,
                              const OperatorSet& operators, const std::vector<Scope>& scopes);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ROW_PROOF_H_
