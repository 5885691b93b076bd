#include "engine/search/strategy.h"

namespace beamwright::search {

int Strategy::candidates_per_row(const SearchOptions& options) const {
  const int ends = static_cast<int>(options.end_tokens.size());
  if (options.beam_size == 1) {
    return options.end_threshold == 0 ? 1 : 1 + ends;
  }
  return options.beam_size + ends;
}

}  // namespace beamwright::search
