// The types of ports as requests bring them. Graphs of 16-bit floats behind ports of f32: Requests
// bring f32, searches read f32, and what lies between may be as narrow as the file has it: a 16-bit
// number is an f32 as well, so states lose nothing on their way from one step to the next.
#ifndef BEAMWRIGHT_OPS_DECODER_FLOAT_PORTS_H_
#define BEAMWRIGHT_OPS_DECODER_FLOAT_PORTS_H_

#include "ops/graph/graph.h"

namespace beamwright::ops {

// Makes every Parameter of f16 or bf16 one of f32 that is converted at once, and every Result of
// these types one of f32. Names and the order of ports stay; a graph without such ports stays as it
// is. First as TakeFloatIds.
void TakeAndGiveF32(Graph& graph);

// Makes every Parameter of floats that is converted to integers and looked up, and else only
// compared with constants, one of i64: Keras' models take token ids as floats, and mask padding.
void TakeFloatIds(Graph& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_FLOAT_PORTS_H_
