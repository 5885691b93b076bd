// SharedHotwords: the automaton of a request's hotwords, compiled once for all requests with the
// same phrases: those of a call's sources, and of calls that repeat a list. An automaton lives as
// long as a request that reads it.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_SHARED_HOTWORDS_H_
#define BEAMWRIGHT_ENGINE_SEARCH_SHARED_HOTWORDS_H_

#include <memory>
#include <vector>

#include "engine/search/options.h"
#include "engine/search/processor.h"

namespace beamwright::search {

// Thread-safe. Phrases as Hotwords takes them.
std::unique_ptr<const Processor> SharedHotwords(const std::vector<Hotword>& phrases);

// Automata that are alive.
size_t NumSharedHotwords();

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_SHARED_HOTWORDS_H_
