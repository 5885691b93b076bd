// The check of a compiled step at load: rows of several requests, stepped together, must get the
// bits that each gets alone.
#ifndef BEAMWRIGHT_OPS_DECODER_SELF_CHECK_H_
#define BEAMWRIGHT_OPS_DECODER_SELF_CHECK_H_

#include "absl/status/statusor.h"
#include "ops/decoder/stepped_decoder.h"

namespace beamwright::ops {

bool SameBits(const Tensor& a, const Tensor& b);

// Two requests, whose sources should differ in length, take two steps together, the second with
// rows repeated, and, where the body can, one over several positions of a row; and the same steps
// row by row: whether every bit agrees. An error if a step fails.
// The values of the requests may gain what the first step computes of them.
absl::StatusOr<bool> StepsTogetherAsAlone(const ExecutionContext& context,
                                          const SteppedDecoder& decoder, StartValues& first,
                                          StartValues& second);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_SELF_CHECK_H_
