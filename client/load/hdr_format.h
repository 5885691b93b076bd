// Histograms in HdrHistogram's compressed form, version 2, in base64: what its logs hold, and what
// its tools and libraries read. Ours have the buckets of one of three digits from 1 us to an hour,
// so nothing is lost. Written after the format's description (HdrHistogram's
// AbstractHistogram.encodeIntoCompressedByteBuffer): a header of 40 bytes, then counts as ZigZag
// LEB128, a negative one for that number of empty buckets, all of it deflated.
#ifndef BEAMWRIGHT_CLIENT_LOAD_HDR_FORMAT_H_
#define BEAMWRIGHT_CLIENT_LOAD_HDR_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::client {

// Counts by bucket, as Histogram::Counts has them.
std::string EncodeHdr(const std::vector<int64_t>& counts);

// InvalidArgument: the text is not such a histogram, or one of other buckets.
absl::StatusOr<std::vector<int64_t>> DecodeHdr(absl::string_view base64);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_LOAD_HDR_FORMAT_H_
