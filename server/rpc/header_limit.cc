#include "server/rpc/header_limit.h"

#include "absl/strings/str_cat.h"
#include "engine/status/error_details.h"

namespace beamwright::rpc {
namespace {

// What a field counts for besides name and value (RFC 9113, 6.5.2).
constexpr int64_t kFieldBytes = 32;
// Huffman's code makes 8 bits of 5, and a field of the least size counts for some more.
constexpr int64_t kMostExpansion = 2;
// What no header list without references has, in multiples of its size and in fields, each of which
// takes 4 bytes to send.
constexpr int64_t kFlood = 16;
constexpr int64_t kBytesOfAField = 4;

}  // namespace

absl::Status HeaderLimit::Check(const grpc::ServerContextBase& context) const {
  int64_t bytes = 0;
  for (const auto& [name, value] : context.client_metadata()) {
    bytes += kFieldBytes + static_cast<int64_t>(name.size() + value.size());
  }
  if (bytes <= kMostExpansion * max_bytes_) {
    return absl::OkStatus();
  }
  const auto fields = static_cast<int64_t>(context.client_metadata().size());
  if (reset_ != nullptr && (bytes > kFlood * max_bytes_ || fields > max_bytes_ / kBytesOfAField)) {
    reset_(context.peer());
  }
  return status::WithReason(
      absl::ResourceExhaustedError(absl::StrCat("the call's headers have ", bytes,
                                                " bytes; grpc-max-metadata-bytes is ", max_bytes_)),
      status::reason::kTooLarge);
}

}  // namespace beamwright::rpc
