// HTTP/2 by hand, for bytes that no library of a client would send (RFC 9113; header blocks as of
// RFC 7541, without its tables).
#ifndef BEAMWRIGHT_TESTS_E2E_HTTP2_FRAMES_H_
#define BEAMWRIGHT_TESTS_E2E_HTTP2_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace beamwright::http2 {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9
};
inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kEndHeaders = 4;
inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr size_t kMaxFrame = 16000;

inline std::string Frame(FrameType type, uint8_t flags, uint32_t stream,
                         const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) {
    frame += static_cast<char>(payload.size() >> shift);
  }
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) {
    frame += static_cast<char>(stream >> shift);
  }
  return frame + payload;
}

// A string of HPACK, its length in seven bits and more.
inline std::string Text(const std::string& text) {
  std::string out;
  size_t size = text.size();
  if (size < 127) {
    out += static_cast<char>(size);
  } else {
    out += '\x7F';
    for (size -= 127; size >= 128; size /= 128) {
      out += static_cast<char>(size % 128 + 128);
    }
    out += static_cast<char>(size);
  }
  return out + text;
}

inline std::string Field(const std::string& name, const std::string& value) {
  return '\0' + Text(name) + Text(value);
}

inline std::string CallHeaders(
    const std::string& scheme, const std::string& te,
    const std::string& path = "/inference.GRPCInferenceService/ServerLive") {
  return Field(":method", "POST") + Field(":scheme", scheme) + Field(":path", path) +
         Field(":authority", "x") + Field("te", te) + Field("content-type", "application/grpc");
}

// A header block in as many frames as it takes.
inline std::string Headers(uint32_t stream, const std::string& block) {
  std::string frames;
  for (size_t begin = 0; begin < block.size(); begin += kMaxFrame) {
    const bool last = begin + kMaxFrame >= block.size();
    frames += Frame(begin == 0 ? kHeaders : kContinuation,
                    static_cast<uint8_t>((last ? kEndHeaders : 0) | (begin == 0 ? kEndStream : 0)),
                    stream, block.substr(begin, kMaxFrame));
  }
  return frames;
}

}  // namespace beamwright::http2

#endif  // BEAMWRIGHT_TESTS_E2E_HTTP2_FRAMES_H_
