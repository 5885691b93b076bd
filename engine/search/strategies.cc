#include "engine/search/strategies.h"

#include <algorithm>

#include "engine/search/alternatives_strategy.h"
#include "engine/search/bank_strategy.h"
#include "engine/search/beam_strategy.h"
#include "engine/search/forced_end_strategy.h"
#include "engine/search/group_strategy.h"
#include "engine/search/prefix_strategy.h"
#include "engine/search/random_strategy.h"
#include "engine/search/stochastic_beam_strategy.h"

namespace beamwright::search {
namespace {

// How many beams share the rows; the options exclude that two of these are above 1.
int NumGroups(const SearchOptions& options) {
  return std::max(options.num_groups, options.constraints.num_alternatives);
}

std::unique_ptr<Strategy> MakeFree(const SearchOptions& options) {
  switch (options.sampling.kind) {
    case Sampling::kRandom:
      return std::make_unique<RandomStrategy>();
    case Sampling::kWithoutReplacement:
      return std::make_unique<StochasticBeamStrategy>();
    case Sampling::kNone:
      break;
  }
  if (!options.constraints.required.empty()) {
    return std::make_unique<BankStrategy>();
  }
  if (NumGroups(options) > 1) {
    return std::make_unique<GroupStrategy>(NumGroups(options));
  }
  return std::make_unique<BeamStrategy>(options.beam_size);
}

}  // namespace

Strategies::Strategies(const SearchOptions& options)
    : last_(options.max_length - 1), free_(MakeFree(options)) {
  if (!options.constraints.prefix.empty()) {
    prefix_ = std::make_unique<PrefixStrategy>();
  }
  if (options.constraints.num_alternatives > 0) {
    alternatives_ = std::make_unique<AlternativesStrategy>();
  }
  if (options.at_limit == AtLimit::kForceEnd) {
    forced_end_ = std::make_unique<ForcedEndStrategy>(*free_);
  }
}

Strategy& Strategies::At(int num_generated) const {
  if (num_generated < 0) {
    return *prefix_;
  }
  if (num_generated == 0 && alternatives_ != nullptr) {
    return *alternatives_;
  }
  return num_generated == last_ && forced_end_ != nullptr ? *forced_end_ : *free_;
}

}  // namespace beamwright::search
