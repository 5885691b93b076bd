#include "server/websocket/web_socket.h"

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>
#include <type_traits>
#include <utility>

#include "server/access/tls.h"

namespace beamwright::websocket {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ws = beast::websocket;

using boost::system::error_code;
using Plain = beast::tcp_stream;
using Tls = beast::ssl_stream<beast::tcp_stream>;

constexpr uint32_t kMaxHeadBytes = 64 << 10;
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
  if (error == ws::error::message_too_big || error == beast::http::error::header_limit) {
    return Outcome::kTooLarge;
  }
  return error.category() == make_error_code(beast::http::error::bad_method).category() &&
                 error != beast::http::error::end_of_stream &&
                 error != beast::http::error::partial_message
             ? Outcome::kMalformed
             : Outcome::kGone;
}

// The reason must be UTF-8, whole characters.
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
  template <typename... More>
  WebSocketOver(const Limits& limits, asio::ip::tcp::socket socket, More&&... more)
      : limits_(limits), stream_(std::move(socket), std::forward<More>(more)...) {}

  asio::any_io_executor executor() override { return stream_.get_executor(); }

  void ReadRequest(Done done) override {
    beast::get_lowest_layer(stream_).expires_after(ToChrono(limits_.transfer_timeout));
    if constexpr (std::is_same_v<Next, Tls>) {
      stream_.next_layer().async_handshake(
          asio::ssl::stream_base::server,
          [this, done = std::move(done)](const error_code& error) mutable {
            if (error) {
              done(OutcomeOf(error));
              return;
            }
            request_.peers = access::PeerNames(*stream_.next_layer().native_handle());
            ReadHead(std::move(done));
          });
    } else {
      ReadHead(std::move(done));
    }
  }

  const http::HttpRequest& request() const override { return request_; }
  const std::string& target() const override { return target_; }
  bool asks_for_upgrade() const override { return ws::is_upgrade(parser_.get()); }

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
    beast::get_lowest_layer(stream_).expires_after(ToChrono(limits_.transfer_timeout));
    beast::http::async_write(
        stream_.next_layer(), *response,
        [this, response, done = std::move(done)](const error_code& error, size_t) {
          error_code ignored;
          beast::get_lowest_layer(stream_).socket().shutdown(asio::socket_base::shutdown_send,
                                                             ignored);
          done(OutcomeOf(error));
        });
  }

  void Accept(const std::string& protocol, Done done) override {
    beast::get_lowest_layer(stream_).expires_never();
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
    stream_.async_accept(parser_.get(), [done = std::move(done)](const error_code& error) {
      done(OutcomeOf(error));
    });
  }

  void Read(std::function<void(Outcome, bool, std::string)> done) override {
    stream_.async_read(received_, [this, done = std::move(done)](const error_code& error, size_t) {
      std::string payload;
      if (!error) {
        payload = beast::buffers_to_string(received_.data());
      }
      received_ = beast::flat_buffer();  // who says nothing holds nothing
      done(OutcomeOf(error), stream_.got_text(), std::move(payload));
    });
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
    beast::get_lowest_layer(stream_).socket().close(ignored);
  }

 private:
  void ReadHead(Done done) {
    parser_.header_limit(kMaxHeadBytes);
    beast::http::async_read_header(
        stream_.next_layer(), received_, parser_,
        [this, done = std::move(done)](const error_code& error, size_t) {
          received_ = beast::flat_buffer();
          const auto& head = parser_.get();
          target_ = std::string(head.target());
          request_.method = std::string(head.method_string());
          request_.path = target_.substr(0, target_.find('?'));
          request_.header = [this](const char* name) {
            const auto found = parser_.get().find(name);
            return found == parser_.get().end() ? std::string() : std::string(found->value());
          };
          done(OutcomeOf(error));
        });
  }

  const Limits limits_;
  ws::stream<Next> stream_;
  beast::flat_buffer received_;
  beast::http::request_parser<beast::http::empty_body> parser_;
  http::HttpRequest request_;
  std::string target_;
};

}  // namespace

std::unique_ptr<WebSocket> WebSocket::Make(asio::ip::tcp::socket socket,
                                           const std::shared_ptr<SSL_CTX>& tls,
                                           const Limits& limits) {
  if (tls == nullptr) {
    return std::make_unique<WebSocketOver<Plain>>(limits, std::move(socket));
  }
  SSL_CTX_up_ref(tls.get());  // Asio's context gives it back
  asio::ssl::context context(tls.get());
  return std::make_unique<WebSocketOver<Tls>>(limits, std::move(socket), context);
}

}  // namespace beamwright::websocket
