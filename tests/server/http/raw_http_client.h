// RawHttpClient: a client over clear text that sends bytes as they are given.
#ifndef BEAMWRIGHT_TESTS_SERVER_HTTP_RAW_HTTP_CLIENT_H_
#define BEAMWRIGHT_TESTS_SERVER_HTTP_RAW_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"

namespace beamwright::http {

class RawHttpClient {
 public:
  explicit RawHttpClient(int port) : RawHttpClient(port, socket(AF_INET, SOCK_STREAM, 0)) {}
  // Takes the socket.
  RawHttpClient(int port, int socket) : socket_(socket) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawHttpClient() { Close(); }

  void Close() {
    if (socket_ >= 0) {
      close(socket_);
      socket_ = -1;
    }
  }
  // Neither sends nor reads any more.
  void End() { shutdown(socket_, SHUT_RDWR); }
  bool Send(const std::string& text) {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Reads until `end` was read or the server closes.
  std::string ReadUntil(const std::string& end) {
    std::string text;
    char c = 0;
    while (!absl::EndsWith(text, end) && recv(socket_, &c, 1, 0) == 1) {
      text += c;
    }
    return text;
  }
  std::string ReadAll() { return ReadUntil("\xFF no such text"); }
  // The same without a look at it.
  void Discard() {
    char bytes[1 << 16];
    while (recv(socket_, bytes, sizeof(bytes), 0) > 0) {
    }
  }

 private:
  int socket_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_TESTS_SERVER_HTTP_RAW_HTTP_CLIENT_H_
