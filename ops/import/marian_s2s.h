// Marian's older architecture, which Nematus had first: a bidirectional GRU encoder, and a decoder
// whose step is a GRU cell, attention by a small network (Bahdanau et al. 2015), and a second GRU
// cell. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_MARIAN_S2S_H_
#define BEAMWRIGHT_OPS_IMPORT_MARIAN_S2S_H_

#include "absl/status/status.h"
#include "ops/graph/graph.h"
#include "ops/import/marian_nodes.h"

namespace beamwright::ops {

// encoder: source i64 [rows, length] -> memory f32 [rows, length, 2 * state], start f32 [rows,
// state]. decoder: as MarianPart::kDecoder, with the state cell1 f32 [rows, state], which begins
// with `start`. Faults of arrays are those of `arrays`.
absl::Status BuildMarianS2s(MarianArrays& arrays, Graph& encoder, Graph& decoder);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_MARIAN_S2S_H_
