#include "server/http/compression.h"

#include <brotli/encode.h>
#include <zlib.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace beamwright::http {
namespace {

// What is smaller fits into a packet as it is.
constexpr size_t kLeastBytes = 512;
// Of 11 and of 9: beyond these a large answer takes longer to pack than to send.
constexpr int kBrotliQuality = 4;
constexpr int kGzipLevel = 4;

bool PacksWell(absl::string_view type) {
  type = absl::StripAsciiWhitespace(type.substr(0, type.find(';')));
  return absl::StartsWith(type, "text/") || type == "application/json" || type == "image/svg+xml";
}

// "gzip;q=0" is a refusal.
bool Accepts(absl::string_view accepts, absl::string_view coding) {
  for (const absl::string_view entry : absl::StrSplit(accepts, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits(';', 1));
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.first), coding)) {
      continue;
    }
    absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    double quality = 1;
    return !absl::ConsumePrefix(&weight, "q=") ||
           (absl::SimpleAtod(weight, &quality) && quality > 0);
  }
  return false;
}

// Empty where it does not get smaller.
std::string Brotli(const std::string& body) {
  std::string packed(body.size(), '\0');
  size_t size = packed.size();
  if (BrotliEncoderCompress(kBrotliQuality, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, body.size(),
                            reinterpret_cast<const uint8_t*>(body.data()), &size,
                            reinterpret_cast<uint8_t*>(packed.data())) != BROTLI_TRUE) {
    return "";
  }
  packed.resize(size);
  return packed;
}

std::string Gzip(const std::string& body) {
  constexpr int kGzipWindow = 15 + 16;  // with gzip's head and sum
  constexpr int kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, kGzipLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return "";
  }
  std::string packed(body.size(), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(is_whole ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

void Compress(absl::string_view accepts, HttpReply& reply) {
  if (reply.body.size() < kLeastBytes || reply.next_piece != nullptr ||
      !PacksWell(reply.content_type)) {
    return;
  }
  const bool brotli = Accepts(accepts, "br");
  if (!brotli && !Accepts(accepts, "gzip")) {
    return;
  }
  std::string packed = brotli ? Brotli(reply.body) : Gzip(reply.body);
  if (!packed.empty()) {
    reply.body = std::move(packed);
    reply.headers.emplace_back("Content-Encoding", brotli ? "br" : "gzip");
    reply.headers.emplace_back("Vary", "Accept-Encoding");
  }
}

}  // namespace beamwright::http
