// The processors of a request, and their chain: what keeps rows' histories and states, and makes
// each step's rules. docs/decoding.md, 'Processors', defines each and their order.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_PROCESSORS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_PROCESSORS_H_

#include <memory>
#include <vector>

#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

// Those that the options ask for, in their order. The options must be valid.
std::vector<std::unique_ptr<const Processor>> MakeProcessors(const SearchOptions& options);

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_PROCESSORS_H_
