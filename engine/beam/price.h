// What a beam search takes of the memory that running requests share. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_PRICE_H_
#define BEAMWRIGHT_ENGINE_BEAM_PRICE_H_

#include <cstdint>

#include "engine/model/parts.h"
#include "engine/search/options.h"

namespace beamwright::engine {

// Bytes that a request holds at most while it runs: states and history of its rows, values that its
// steps share.
int64_t PriceBytes(const DecodeModel& model, const search::SearchOptions& options,
                   int source_length, bool keeps_attention);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_PRICE_H_
