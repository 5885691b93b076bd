// The strategies that one request's steps take: the target prefix is read first; then first tokens
// of alternatives are taken; the last step may be a forced end; all others are advanced in the way
// that the options ask for.
#ifndef BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_
#define BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_

#include <memory>

#include "engine/search/options.h"
#include "engine/search/strategy.h"

namespace beamwright::search {

// Movable, not copyable. One thread at a time.
class Strategies {
 public:
  // The options must be valid.
  explicit Strategies(const SearchOptions& options);

  // Of the step with this number of tokens after the target prefix; negative: within it.
  Strategy& At(int num_generated) const;

 private:
  int last_;                          // num_generated of the last step
  std::unique_ptr<Strategy> prefix_;  // null if missing, like the next
  std::unique_ptr<Strategy> alternatives_;
  std::unique_ptr<Strategy> free_;
  std::unique_ptr<Strategy> forced_end_;  // null: the last step is like others
};

}  // namespace beamwright::search

#endif  // BEAMWRIGHT_ENGINE_SEARCH_STRATEGIES_H_
