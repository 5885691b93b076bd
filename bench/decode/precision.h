// What `beamwright-bench precision` reports: how far answers move when weights are kept in fewer
// bits.
#ifndef BEAMWRIGHT_BENCH_DECODE_PRECISION_H_
#define BEAMWRIGHT_BENCH_DECODE_PRECISION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/decode.pb.h"

namespace beamwright::bench {

struct DecodeRequest {
  v1::Source source;
  v1::DecodeOptions options;
};

// The golden requests of a bundle: lines {"source": text, "options": DecodeOptions, ...} of its
// golden.jsonl. NotFound if absent, InvalidArgument naming the line.
absl::StatusOr<std::vector<DecodeRequest>> ReadGoldenRequests(const std::string& bundle);

// Answers of one precision compared with those of f32.
struct PrecisionShift {
  std::string numerics;
  int64_t requests = 0;
  int64_t equal_best = 0;   // the best hypothesis has the same tokens
  int64_t equal_lists = 0;  // all hypotheses have, in the same order
  // Of the normalised score of the best hypothesis, where its tokens are the same.
  double mean_score_shift = 0;
  double largest_score_shift = 0;
};

// For bf16 and int8. Errors are those of the first request that fails.
absl::StatusOr<std::vector<PrecisionShift>> MeasurePrecisions(
    const std::string& bundle, const std::vector<DecodeRequest>& requests);

// A table, or a JSON array.
std::string ShiftsText(const std::vector<PrecisionShift>& shifts);
std::string ShiftsJson(const std::vector<PrecisionShift>& shifts);

}  // namespace beamwright::bench

#endif  // BEAMWRIGHT_BENCH_DECODE_PRECISION_H_
