// Bytes that no gRPC client would send, on the gRPC port of the real server: known faults of HTTP/2
// libraries by their shape. After each the server must still give a good request its answer.
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/e2e_test.h"
#include "tests/e2e/http2_frames.h"
#include "tests/server/rpc/sockets.h"

namespace beamwright::e2e {
namespace {

using namespace http2;  // NOLINT(google-build-using-namespace): frames are what this is about

class HostileHttp2Test : public E2eTest {
 protected:
  // Sends and waits until the server has answered something or hung up.
  static void Send(const std::string& bytes) {
    // From a separate address: the server may refuse it for a while.
    const rpc::ClientSocket client;
    ASSERT_TRUE(client.ConnectV4(server_->WaitForPort(), "127.0.0.1", "127.0.0.2"))
        << "the server is gone";
    const std::string all = kPreface + Frame(kSettings, 0, 0, "") + bytes;
    send(client.fd(), all.data(), all.size(), MSG_NOSIGNAL);
    shutdown(client.fd(), SHUT_WR);
    char answer[4096];
    while (recv(client.fd(), answer, sizeof(answer), 0) > 0) {
    }
  }
};

// CVE-2023-1428: some values that are not values, in a block beyond the limit, ended the process.
TEST_F(HostileHttp2Test, OddHeadersInLargeBlocks) {
  for (const auto& [scheme, te] : {std::pair("x", "trailers"), std::pair("http", "x"),
                                   std::pair("http", ""), std::pair("http", "trailers")}) {
    for (const int kilobytes : {0, 7, 9, 15, 17, 40, 300}) {
      std::string block = CallHeaders(scheme, te) + Field("grpclb_client_stats", "x");
      for (int i = 0; i < kilobytes; ++i) {
        block += Field(absl::StrCat("x", i), std::string(1000, 'y'));
      }
      Send(Headers(1, block));
    }
  }
}

// CVE-2023-32732: invalid base64 in a binary header.
TEST_F(HostileHttp2Test, BinaryHeadersThatAreNone) {
  Send(Headers(1, CallHeaders("http", "trailers") + Field("x-bin", "*****") + Field("y-bin", "a")));
}

// CVE-2023-33953: lengths padded with zeroes without end, and a string that is announced as
// gigabytes.
TEST_F(HostileHttp2Test, NumbersOfHpackWithoutEnd) {
  Send(Headers(1, CallHeaders("http", "trailers") + '\0' + '\x7F' + std::string(100'000, '\x80')));
  Send(Headers(1, CallHeaders("http", "trailers") + '\0' + "\x7F\xFF\xFF\xFF\x07" + "abc"));
}

// CVE-2023-44487: streams that are opened and given up.
TEST_F(HostileHttp2Test, RapidReset) {
  std::string bytes;
  const std::string cancel("\0\0\0\x08", 4);
  for (uint32_t stream = 1; stream < 10'000; stream += 2) {
    bytes += Headers(stream, CallHeaders("http", "trailers")) + Frame(kReset, 0, stream, cancel);
  }
  Send(bytes);
}

TEST_F(HostileHttp2Test, MoreStreamsThanAreAllowed) {
  std::string bytes;
  for (uint32_t stream = 1; stream < 6'000; stream += 2) {
    std::string headers = Headers(stream, CallHeaders("http", "trailers"));
    headers[4] = kEndHeaders;  // not the end of the stream: it stays open
    bytes += headers;
  }
  Send(bytes);
}

}  // namespace
}  // namespace beamwright::e2e
