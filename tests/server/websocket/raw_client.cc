#include "tests/server/websocket/raw_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace beamwright::websocket {

RawClient::RawClient(int port, int receive_buffer) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

RawClient::~RawClient() { close(socket_); }

void RawClient::Send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    at += static_cast<size_t>(sent);
  }
}

std::string RawClient::Open(const std::string& target, const std::string& headers) {
  Send(absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n",
                    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                    "Sec-WebSocket-Version: 13\r\n", headers, "\r\n"));
  std::string head;
  char c = 0;
  while (head.find("\r\n\r\n") == std::string::npos && recv(socket_, &c, 1, 0) == 1) {
    head += c;
  }
  return head;
}

void RawClient::Finish() { shutdown(socket_, SHUT_WR); }

void RawClient::SendMessage(Opcode opcode, const std::string& payload) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else {
    const bool is_short = payload.size() < 65536;
    frame += static_cast<char>(0x80 | (is_short ? 126 : 127));
    for (int shift = is_short ? 8 : 56; shift >= 0; shift -= 8) {
      frame += static_cast<char>(payload.size() >> shift & 0xff);
    }
  }
  Send(frame + std::string(4, '\0') + payload);
}

std::pair<int, std::string> RawClient::ReadFrame() {
  std::string head = ReadBytes(2);
  if (head.size() < 2) {
    return {-1, ""};
  }
  size_t size = static_cast<unsigned char>(head[1]) & 0x7f;
  if (size >= 126) {
    const std::string more = ReadBytes(size == 126 ? 2 : 8);
    size = 0;
    for (const char c : more) {
      size = size << 8 | static_cast<unsigned char>(c);
    }
  }
  std::string payload = ReadBytes(size);
  return {head[0] & 0xf, std::move(payload)};
}

bool RawClient::ReadsItsEnd() {
  while (ReadFrame().first >= 0) {
  }
  return true;
}

std::string RawClient::ReadBody() {
  std::string body;
  char c = 0;
  while (recv(socket_, &c, 1, 0) == 1) {
    body += c;
  }
  return body;
}

std::string RawClient::ReadBytes(size_t size) {
  std::string bytes(size, '\0');
  return recv(socket_, bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size) ? bytes : "";
}

}  // namespace beamwright::websocket
