// What `beamwright-bench cost` reports: what a request holds and takes, in the form that
// `beamwright capacity` reads.
#ifndef BEAMWRIGHT_BENCH_DECODE_COST_H_
#define BEAMWRIGHT_BENCH_DECODE_COST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/decode/bench.h"
#include "server/engine/engine.h"

namespace beamwright::bench {

struct RequestPrice {
  int rows = 0;
  // Held at most while it runs: the price that the server admits it by.
  int64_t bytes = 0;
};

// The dearest of the sources.
absl::StatusOr<RequestPrice> DearestPrice(const std::shared_ptr<const engine::DecodeModel>& model,
                                          const std::vector<v1::Source>& sources,
                                          const v1::DecodeOptions& options);

// Rates are those of a core that has nothing else to do: by CPU time, not by the clock.
std::string CostText(const RequestPrice& price, const std::vector<DecodeResult>& results);

}  // namespace beamwright::bench

#endif  // BEAMWRIGHT_BENCH_DECODE_COST_H_
