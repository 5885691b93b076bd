// What `beamwright-graph cost` does: measures what a request of a model holds and takes, in the
// form that `beamwright capacity` reads. Rates are those of a core that has nothing else to do: by
// CPU time, not by the clock, without RPC.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_COST_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_COST_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace beamwright::tools {

struct CostFlags {
  std::string model;    // folder: a bundle, or a model, whose newest version is taken
  std::string sources;  // file with one source a line, as text
  int beam_size = 0;    // 0: the model's default
  std::vector<int> concurrency = {1, 2, 4, 8, 16, 32};
  double seconds = 3;  // for each number in flight
};

// An error names what cannot be read, or the first request that fails.
absl::Status Cost(const CostFlags& flags, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_COST_H_
