// What `beamwright-bench options` reports: what each option of a request costs on a whole model,
// one at a time, against none.
#ifndef BEAMWRIGHT_BENCH_DECODE_OPTIONS_H_
#define BEAMWRIGHT_BENCH_DECODE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::bench {

struct OptionCost {
  std::string name;
  // CPU time of a request and of a token of its best hypothesis, as multiples of what they take
  // without options, measured right before and right after.
  double per_request = 0;
  double per_token = 0;
  // Microseconds of CPU time for a token of the best hypothesis.
  double us_per_token = 0;
};

// Decodes the sources with each option on, `concurrency` requests in flight on one thread, for
// `seconds` each. Options that the model does not have (attention) are left out. Closed lists hold
// random entries. The target vocabulary must have 32 tokens or more.
absl::StatusOr<std::vector<OptionCost>> MeasureOptions(const std::string& bundle,
                                                       const std::vector<v1::Source>& sources,
                                                       int concurrency, double seconds);

std::string CostsText(const std::vector<OptionCost>& costs);

}  // namespace beamwright::bench

#endif  // BEAMWRIGHT_BENCH_DECODE_OPTIONS_H_
