// WebSocket: a client's connection as Boost.Beast reads and writes it (RFC 6455), in clear text or
// TLS behind one interface, so that what is said on it is compiled once and knows nothing of Beast.
//
// Nothing blocks: each call starts an operation and calls `done` at its end, on the connection's
// executor, on which every call is made, too. `done` keeps alive what it needs; a connection that
// no operation refers to is destroyed.
#ifndef BEAMWRIGHT_SERVER_WEBSOCKET_WEB_SOCKET_H_
#define BEAMWRIGHT_SERVER_WEBSOCKET_WEB_SOCKET_H_

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/listener.h"
#include "server/http/taken_connection.h"
#include "server/serving/memory_account.h"

namespace beamwright::websocket {

// How an operation ended.
enum class Outcome {
  kOk,
  kTooSlow,    // it took longer than it may
  kTooLarge,   // a message was larger than allowed; the client got the error
  kNoMemory,   // there is no memory for the message; the client is still there
  kGone,       // the connection has ended, in order or not
  kMalformed,  // what came is not HTTP
};

class WebSocket {
 public:
  struct Limits {
    size_t max_message_bytes = 0;
    // Where messages are reserved until they are whole; null: nowhere.
    serving::MemoryAccount* memory = nullptr;
    // For the handshake, for an HTTP reply, and for the client's part of closing.
    absl::Duration transfer_timeout;
  };
  using Done = std::function<void(Outcome)>;

  static std::unique_ptr<WebSocket> Make(http::TakenConnection& taken, const Limits& limits);
  virtual ~WebSocket() = default;

  virtual boost::asio::any_io_executor executor() = 0;
  // The head of the request that it begins with.
  virtual void ReadRequest(Done done) = 0;
  // Of that request: its first line and headers. `target`: path and query, as they came.
  virtual const http::HttpRequest& request() const = 0;
  virtual const std::string& target() const = 0;
  virtual bool asks_for_upgrade() const = 0;
  // Answers it by HTTP; the connection ends.
  virtual void Refuse(const http::HttpReply& reply, Done done) = 0;
  // Becomes a WebSocket. `protocol`: of those that the client offers; empty: none.
  virtual void Accept(const std::string& protocol, Done done) = 0;
  // The next message. Pings are answered while one is waited for. One at a time.
  virtual void Read(std::function<void(Outcome, bool is_text, std::string payload)> done) = 0;
  // A text message. One at a time.
  virtual void Write(std::string text, Done done) = 0;
  // Called when the client says something that is no message: an answer to Ping.
  virtual void OnSign(std::function<void()> sign) = 0;
  // One at a time.
  virtual void Ping(Done done) = 0;
  // Says farewell and waits for the client's. `code`: RFC 6455, 7.4.1; `reason` is cut to 123
  // bytes.
  virtual void Close(int code, absl::string_view reason, Done done) = 0;
  // Ends the connection; what is under way ends with kGone.
  virtual void Drop() = 0;
};

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_SERVER_WEBSOCKET_WEB_SOCKET_H_
