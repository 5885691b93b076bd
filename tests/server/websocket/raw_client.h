// RawClient: a WebSocket client over clear text that sends exactly the given bytes (RFC 6455).
#ifndef BEAMWRIGHT_TESTS_SERVER_WEBSOCKET_RAW_CLIENT_H_
#define BEAMWRIGHT_TESTS_SERVER_WEBSOCKET_RAW_CLIENT_H_

#include <string>
#include <utility>

namespace beamwright::websocket {

enum Opcode { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

class RawClient {
 public:
  // Connects to 127.0.0.1; a receive buffer of 0 is the system's.
  explicit RawClient(int port, int receive_buffer = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Bytes as they are. Stops where the other end has gone.
  void Send(const std::string& bytes);
  // The head of the answer to a handshake. headers: further ones, each with its line's end.
  std::string Open(const std::string& target = "/", const std::string& headers = "");
  // It sends no more: the server hears the end.
  void Finish();
  // A whole message in one frame, masked with zeros (5.2).
  void SendMessage(Opcode opcode, const std::string& payload);
  // The next frame's opcode and payload; -1 at the end of the connection.
  std::pair<int, std::string> ReadFrame();
  // Reads on until the server ends the connection.
  bool ReadsItsEnd();
  // The rest of the answer to a handshake that is refused: what comes until the end.
  std::string ReadBody();

 private:
  std::string ReadBytes(size_t size);

  const int socket_;
};

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_TESTS_SERVER_WEBSOCKET_RAW_CLIENT_H_
