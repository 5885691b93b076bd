// Sequences of unequal length side by side, exactly. Where a graph treats each position for itself,
// and only recurrent layers carry anything from one to another, a row needs no mask: its layers get
// its length, leave it out where it has ended, and begin with it at its own last position where
// they read backwards. What is computed of the positions behind its end, with which it is filled up
// to the longest, is never read by anything that counts. An attention among the positions of a row
// gets its length as well, and looks no further.
//
// That positions are apart is proven by the rules that prove it of rows (ops/compile/row_proof.h),
// with positions in their place. What looks at several positions other than by carrying states
// (convolutions, attention with a mask, reductions, the last position) is no such graph.
#ifndef BEAMWRIGHT_OPS_COMPILE_OWN_LENGTHS_H_
#define BEAMWRIGHT_OPS_COMPILE_OWN_LENGTHS_H_

#include "ops/compile/row_proof.h"
#include "ops/graph/inference.h"

namespace beamwright::ops {

// Attribute of a Loop whose items are held (Loop::Items::kHeld): its body is proven to keep items
// apart, however many there are, and reads no invariant that differs from item to item. So it need
// not see those that take no part. No file says so.
inline constexpr char kItemsLeave[] = "items_leave";

// `graph`, whose rows are proven to stay apart, gets a Parameter more, the last one, for the
// length of each row, and its layers read it (a graph with attention has its layers joined then, as
// JoinLayers does it); with lengths that are all the whole axis it computes
// what it did. `graph` and `info` as InferGraph leaves them, before and after; where the proof does
// not hold they stay as they are.
LengthProof GiveRowsLengths(const RowInputs& inputs, const OperatorSet& operators, Graph& graph,
                            GraphInfo& info);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_OWN_LENGTHS_H_
