// A WebSocket over Boost.Beast, with or without TLS (WebSocketOver), behind an interface with
// callbacks. The HTTP listener has read the request; Refuse answers it over HTTP, Accept upgrades
// the connection.
//
// Read gives whole messages; what has been received of a message is charged to the memory account,
// and is dropped when there is no room (Outcome::kNoMemory). The buffer is freed after each
// message, so that a quiet client holds nothing. A refusal has a time limit, as its client may read
// slowly or not at all.
#include "server/websocket/web_socket.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>
#include <utility>

#include "server/http/transport.h"

namespace beamwright::websocket {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ws = beast::websocket;

using boost::system::error_code;
using Plain = http::Transport::Socket;
using Tls = http::Transport::TlsSocket;

constexpr size_t kReadBytes = 64 << 10;
constexpr size_t kMaxReasonBytes = 123;  // RFC 6455, 5.5
constexpr char kServer[] = "beamwright/" BEAMWRIGHT_VERSION;

std::chrono::nanoseconds ToChrono(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

Outcome OutcomeOf(const error_code& error) {
  if (!error) {
    return Outcome::kOk;
  }
  if (error == beast::error::timeout) {
    return Outcome::kTooSlow;
  }
  return error == ws::error::message_too_big ? Outcome::kTooLarge : Outcome::kGone;
}

// Cuts a reason to the length that a closing frame may have, at a whole character.
absl::string_view CutReason(absl::string_view reason) {
  if (reason.size() <= kMaxReasonBytes) {
    return reason;
  }
  size_t size = kMaxReasonBytes;
  while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xc0) == 0x80) {
    --size;
  }
  return reason.substr(0, size);
}

// Next: Plain or Tls.
template <typename Next>
class WebSocketOver final : public WebSocket {
 public:
  WebSocketOver(const Limits& limits, Next&& next, http::TakenConnection& taken)
      : place_(std::move(taken.place)),
        limits_(limits),
        stream_(std::move(next)),
        refusal_timer_(stream_.get_executor()),
        request_(std::move(taken.request)),
        target_(taken.head->target) {
    if (limits.memory != nullptr) {
      held_ = limits.memory->MakeHold();
    }
    upgrade_.method_string({taken.head->method.data(), taken.head->method.size()});
    upgrade_.target({target_.data(), target_.size()});
    upgrade_.version(taken.head->is_http_1_0 ? 10 : 11);
    for (const auto& [name, value] : taken.head->fields) {
      upgrade_.insert({name.data(), name.size()}, {value.data(), value.size()});
    }
  }

  asio::any_io_executor executor() override { return stream_.get_executor(); }

  void ReadRequest(Done done) override { done(Outcome::kOk); }

  const http::HttpRequest& request() const override { return request_; }
  const std::string& target() const override { return target_; }
  bool asks_for_upgrade() const override { return ws::is_upgrade(upgrade_); }

  void Refuse(const http::HttpReply& reply, Done done) override {
    const auto response = std::make_shared<beast::http::response<beast::http::string_body>>(
        static_cast<beast::http::status>(reply.status), 11, reply.body);
    response->set(beast::http::field::server, kServer);
    response->set(beast::http::field::content_type, reply.content_type);
    for (const auto& [name, value] : reply.headers) {
      response->set(name, value);
    }
    response->keep_alive(false);
    response->prepare_payload();
    refusal_timer_.expires_after(ToChrono(limits_.transfer_timeout));
    refusal_timer_.async_wait([this, done](const error_code& cancelled) {
      if (!cancelled) {
        Drop();
      }
    });
    beast::http::async_write(
        stream_.next_layer(), *response,
        [this, response, done = std::move(done)](const error_code& error, size_t) {
          refusal_timer_.cancel();
          error_code ignored;
          beast::get_lowest_layer(stream_).shutdown(asio::socket_base::shutdown_send, ignored);
          done(OutcomeOf(error));
        });
  }

  void Accept(const std::string& protocol, Done done) override {
    ws::stream_base::timeout timeout{};
    timeout.handshake_timeout = ToChrono(limits_.transfer_timeout);
    timeout.idle_timeout = ws::stream_base::none();
    timeout.keep_alive_pings = false;
    stream_.set_option(timeout);
    stream_.set_option(ws::stream_base::decorator([protocol](ws::response_type& response) {
      response.set(beast::http::field::server, kServer);
      if (!protocol.empty()) {
        response.set(beast::http::field::sec_websocket_protocol, protocol);
      }
    }));
    stream_.read_message_max(limits_.max_message_bytes);
    stream_.async_accept(
        upgrade_, [done = std::move(done)](const error_code& error) { done(OutcomeOf(error)); });
  }

  void Read(std::function<void(Outcome, bool, std::string)> done) override {
    stream_.async_read_some(
        received_, kReadBytes,
        [this, done = std::move(done)](const error_code& error, size_t) { OnRead(error, done); });
  }

  void Write(std::string text, Done done) override {
    const auto kept = std::make_shared<const std::string>(std::move(text));
    stream_.text(true);
    stream_.async_write(asio::buffer(*kept),
                        [kept, done = std::move(done)](const error_code& error, size_t) {
                          done(OutcomeOf(error));
                        });
  }

  void OnSign(std::function<void()> sign) override {
    stream_.control_callback(
        [sign = std::move(sign)](ws::frame_type, beast::string_view) { sign(); });
  }

  void Ping(Done done) override {
    stream_.async_ping({}, [done = std::move(done)](const error_code& e) { done(OutcomeOf(e)); });
  }

  void Close(int code, absl::string_view reason, Done done) override {
    const absl::string_view cut = CutReason(reason);
    stream_.async_close(
        ws::close_reason(static_cast<ws::close_code>(code),
                         beast::string_view(cut.data(), cut.size())),
        [done = std::move(done)](const error_code& error) { done(OutcomeOf(error)); });
  }

  void Drop() override {
    error_code ignored;
    beast::get_lowest_layer(stream_).close(ignored);
  }

 private:
  void OnRead(const error_code& error,
              const std::function<void(Outcome, bool, std::string)>& done) {
    const bool is_whole = !error && stream_.is_message_done();
    const bool has_room = error || is_whole || Hold(received_.size());
    if (!error && !is_whole && has_room) {
      Read(done);
      return;
    }
    std::string payload;
    if (is_whole) {
      payload = beast::buffers_to_string(received_.data());
    }
    received_ = beast::flat_buffer();  // who says nothing holds nothing
    held_.Release();
    done(has_room ? OutcomeOf(error) : Outcome::kNoMemory, stream_.got_text(), std::move(payload));
  }

  bool Hold(size_t size) {
    return limits_.memory == nullptr || held_.Resize(static_cast<int64_t>(size));
  }

  const std::shared_ptr<void> place_;
  const Limits limits_;
  ws::stream<Next> stream_;
  asio::steady_timer refusal_timer_;
  beast::flat_buffer received_;
  serving::MemoryAccount::Hold held_;  // for what is received
  beast::http::request<beast::http::empty_body> upgrade_;
  http::HttpRequest request_;
  const std::string target_;
};

}  // namespace

std::unique_ptr<WebSocket> WebSocket::Make(http::TakenConnection& taken, const Limits& limits) {
  const std::unique_ptr<http::Transport> transport = std::move(taken.transport);
  if (Tls* const tls = transport->tls_stream()) {
    return std::make_unique<WebSocketOver<Tls>>(limits, std::move(*tls), taken);
  }
  return std::make_unique<WebSocketOver<Plain>>(limits, std::move(*transport->plain_stream()),
                                                taken);
}

}  // namespace beamwright::websocket
