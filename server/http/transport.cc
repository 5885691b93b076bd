#include "server/http/transport.h"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <type_traits>
#include <utility>

namespace beamwright::http {
namespace {

using Socket = Transport::Socket;
using TlsSocket = Transport::TlsSocket;

// Stream: Socket or TlsSocket.
template <typename Stream>
class TransportOver final : public Transport {
 public:
  template <typename... More>
  explicit TransportOver(Socket socket, More&&... more)
      : stream_(std::move(socket), std::forward<More>(more)...) {}

  Socket& socket() override {
    if constexpr (kIsTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  SSL* tls() override {
    if constexpr (kIsTls) {
      return stream_.native_handle();
    } else {
      return nullptr;
    }
  }

  void Handshake(Done done) override {
    if constexpr (kIsTls) {
      stream_.async_handshake(
          boost::asio::ssl::stream_base::server,
          [done = std::move(done)](const boost::system::error_code& error) { done(error, 0); });
    } else {
      done({}, 0);
    }
  }

  void ReadSome(boost::asio::mutable_buffer into, Done done) override {
    stream_.async_read_some(into, std::move(done));
  }

  void Write(boost::asio::const_buffer bytes, Done done) override {
    boost::asio::async_write(stream_, bytes, std::move(done));
  }

  Socket* plain_stream() override {
    if constexpr (kIsTls) {
      return nullptr;
    } else {
      return &stream_;
    }
  }

  TlsSocket* tls_stream() override {
    if constexpr (kIsTls) {
      return &stream_;
    } else {
      return nullptr;
    }
  }

  void EndTls(Done done) override {
    if constexpr (kIsTls) {
      stream_.async_shutdown(
          [done = std::move(done)](const boost::system::error_code& error) { done(error, 0); });
    } else {
      done({}, 0);
    }
  }

 private:
  static constexpr bool kIsTls = std::is_same_v<Stream, TlsSocket>;

  Stream stream_;
};

}  // namespace

std::unique_ptr<Transport> Transport::Make(Socket socket, const std::shared_ptr<SSL_CTX>& tls) {
  if (tls == nullptr) {
    return std::make_unique<TransportOver<Socket>>(std::move(socket));
  }
  SSL_CTX_up_ref(tls.get());  // Asio's context gives it back
  boost::asio::ssl::context context(tls.get());
  return std::make_unique<TransportOver<TlsSocket>>(std::move(socket), context);
}

}  // namespace beamwright::http
