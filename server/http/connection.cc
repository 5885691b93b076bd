// A connection is a state machine on the executor of its socket; workers and the callers of later
// answers hand their results to it by Post. The way of a request, with the phase in brackets:
//
//   1. Start, Shake [kHandshake]: TLS, if the listener has it.
//   2. AwaitRequest [kIdle], Read, OnRead, Proceed [kReading]: the reader takes the bytes; memory
//      for the body is reserved as it grows. A large body is read on by Fill [kInTurn], on one
//      thread for the bodies of all connections by turns, and BodyScan counts what it holds: what
//      has come is handled at once if the handler refuses it, and the rest is dropped (Discard).
//   3. Dispatch [kHandling]: what `at_once` knows is answered here, all else by a worker (Handle).
//      A WebSocket's connection is handed over instead (BeTaken) [kGone].
//   4. Deliver: the worker's reply. One that comes later (PendingReply) is kept, and its bell wakes
//      the connection [kWaiting], which looks meanwhile whether the client has gone.
//   5. Answer, Write [kWriting]: head and body, or pieces in chunks: AskForPiece, OnPiece, again 4.
//   6. Finish: AwaitRequest, or Close and Discard [kClosing], then End [kGone].
//
// Refuse leads from 2 and 3 to the end. A timer (OnTimeout) bounds the phases in which the client
// is waited for; while a worker has the request no timer runs.
#include "server/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/steady_time.h"
#include "ops/base/threads.h"
#include "server/http/compression.h"
#include "server/http/cors.h"
#include "server/http/replies.h"
#include "server/http/taken_connection.h"
#include "server/serving/server_threads.h"

namespace beamwright::http {
namespace {

constexpr int kMaxRequestsPerConnection = 10000;
constexpr size_t kReadBytes = 16 << 10;
// Of a client whose bytes fill that: fewer turns for a large body.
constexpr size_t kMostReadBytes = 64 << 10;
// Until a call that is not answered yet is asked again whether its client has gone.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);
// The transfer timeout begins anew with each part of a body of this size, in bytes.
constexpr size_t kBytesInTime = 4 << 20;
// A body up to this leaves with its head.
constexpr size_t kOnePacket = 16 << 10;
// A client that has heard the end has so long to go, and may have sent so much before it heard.
constexpr absl::Duration kFarewellTime = absl::Seconds(2);
constexpr size_t kMaxDiscarded = 64 << 20;
constexpr size_t kMostDropped = 1 << 20;  // in a turn
// A body beyond kLargeBody is large: a thread for such bodies reads it, kBytesInTurn in a turn.
constexpr size_t kLargeBody = 64 << 10;
constexpr size_t kBytesInTurn = 256 << 10;
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

std::string StatusLine(int status) {
  const auto phrase = boost::beast::http::obsolete_reason(
      static_cast<boost::beast::http::status>(static_cast<unsigned>(status)));
  return absl::StrCat("HTTP/1.1 ", status, " ", absl::string_view(phrase.data(), phrase.size()),
                      "\r\n");
}

void AppendField(absl::string_view name, absl::string_view value, std::string& text) {
  if (value.find_first_of("\r\n") == absl::string_view::npos) {  // which would end it
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
}

// RFC 9110, 15.3.5 and 15.4.5.
bool MayHaveBody(int status) { return status != 204 && status != 304; }

bool HasHungUp(int fd) {
  pollfd entry{fd, POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

std::string LastAnswer(int status) {
  const HttpReply reply = RefusalReply("", status);
  std::string text = StatusLine(status);
  for (const auto& [name, value] : reply.headers) {
    AppendField(name, value, text);
  }
  absl::StrAppend(&text, "Content-Type: ", reply.content_type,
                  "\r\nContent-Length: ", reply.body.size(), "\r\nConnection: close\r\n\r\n",
                  reply.body);
  return text;
}

Connection::Connection(ConnectionSite& site, std::unique_ptr<Transport> transport)
    : site_(site),
      transport_(std::move(transport)),
      timer_(std::in_place, transport_->socket().get_executor()),
      turn_(std::in_place, transport_->socket().get_executor()),
      reader_({site.options.max_head_bytes, site.options.max_body_bytes, site.options.body_limits,
               site.options.takes_post, site.options.takes_options}) {
  if (site.options.memory != nullptr) {
    held_ = site.options.memory->MakeHold();
  }
}

Connection::~Connection() {
  // First what belongs to the listener's threads and the socket, then the place: who waits until
  // there is no connection may end the one and take the other. This may be any thread.
  next_piece_ = nullptr;
  later_ = nullptr;
  timer_.reset();
  turn_.reset();
  transport_ = nullptr;
  if (has_place_) {
    site_.open.Remove(place_);
  }
}

template <typename Function>
void Connection::Post(Function function) {
  boost::asio::post(timer_->get_executor(), std::move(function));
}

void Connection::Start() {
  place_ = site_.open.Enter(weak_from_this());
  has_place_ = true;
  Post([self = shared_from_this()] {
    if (self->site_.stopping || self->is_gone()) {
      self->End();
    } else if (self->transport_->tls() != nullptr) {
      self->Shake();
    } else {
      self->AwaitRequest();
    }
  });
}

void Connection::Shake() {
  Arm(site_.options.transfer_timeout);
  transport_->Handshake([self = shared_from_this()](const Error& error, size_t) {
    if (error || self->is_gone()) {
      self->End();
      return;
    }
    self->peers_ = access::PeerNames(*self->transport_->tls());
    self->AwaitRequest();
  });
}

void Connection::AwaitRequest() {
  reader_.Reset();
  scan_.reset();
  is_enough_ = false;
  has_rung_ = false;
  headers_.clear();
  held_.Release();
  phase_ = Phase::kIdle;
  site_.open.SetQuiet(place_);
  Arm(site_.options.idle_timeout);
  if (received_.empty()) {
    received_ = std::string();  // who says nothing holds nothing
    Read();
  } else {
    Proceed(Take(""));
  }
}

void Connection::Read() {
  if (site_.options.bodies != nullptr && fills_reads_ && reader_.body_bytes() >= kLargeBody) {
    Fill();
    return;
  }
  buffer_.resize(fills_reads_ ? kMostReadBytes : kReadBytes);
  transport_->ReadSome(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const Error& error, size_t size) { self->OnRead(error, size); });
}

void Connection::OnRead(const Error& error, size_t size) {
  if (is_gone()) {
    return;
  }
  if (timed_out_) {
    Refuse(408);
    return;
  }
  if (error) {
    End();
    return;
  }
  const absl::Status held = Take({buffer_.data(), size});
  fills_reads_ = size >= kReadBytes;
  if (!fills_reads_ && buffer_.size() > kReadBytes) {
    buffer_ = std::vector<char>();  // who drips holds little
  }
  Proceed(held);
}

absl::Status Connection::Take(absl::string_view bytes) {
  if (received_.empty()) {
    bytes.remove_prefix(reader_.Put(bytes));
    received_.append(bytes.data(), bytes.size());
  } else {
    received_.append(bytes.data(), bytes.size());
    received_.erase(0, reader_.Put(received_));
  }
  return reader_.body_bytes() < kLargeBody ? Hold(static_cast<int64_t>(reader_.body_bytes()))
                                           : Examine(reader_.body());
}

absl::Status Connection::Examine(absl::string_view body) {
  if (!scan_.has_value()) {
    scan_.emplace(*reader_.head());
  }
  is_enough_ = !scan_->Add(body.substr(scan_->num_bytes()));
  return Hold(scan_->held_bytes());
}

void Connection::Fill() {
  phase_ = Phase::kInTurn;
  buffer_ = std::vector<char>();
  site_.options.bodies->Post([self = shared_from_this()] {
    Filled filled;
    try {
      filled = self->TakeTurn();
    } catch (const std::bad_alloc&) {
      filled.held = status::OutOfMemory();
    }
    self->Post([self, filled] { self->OnFilled(filled); });
  });
}

Connection::Filled Connection::TakeTurn() {
  const LongTimeSlices slices;
  Filled filled;
  std::array<char, kMostReadBytes> bytes;
  for (size_t taken = 0; taken < kBytesInTurn;) {
    const size_t size = transport_->ReadNow(boost::asio::buffer(bytes), filled.error);
    if (filled.error) {
      break;
    }
    taken += size;
    filled.held = Take({bytes.data(), size});
    if (!filled.held.ok() || is_enough_ || reader_.is_done() || reader_.refusal() != 0) {
      break;
    }
  }
  return filled;
}

void Connection::OnFilled(const Filled& filled) {
  phase_ = Phase::kReading;
  const bool is_empty = filled.error == boost::asio::error::would_block;
  if (ends_ || (filled.error && !is_empty)) {
    End();
  } else if (timed_out_) {
    Refuse(408);
  } else {
    fills_reads_ = !is_empty;
    Proceed(filled.held);
  }
}

void Connection::Proceed(const absl::Status& held) {
  if (phase_ == Phase::kIdle && reader_.has_begun()) {
    phase_ = Phase::kReading;
    timed_bytes_ = kBytesInTime;
    Arm(site_.options.transfer_timeout);
  }
  if (phase_ == Phase::kReading && reader_.body_bytes() >= timed_bytes_) {
    timed_bytes_ += kBytesInTime;
    Arm(site_.options.transfer_timeout);
  }
  constexpr int kTooLarge = 413;
  is_cut_ = reader_.refusal() == kTooLarge || !held.ok();
  if (reader_.refusal() != 0) {
    Refuse(reader_.refusal());
  } else if (!held.ok()) {
    RefuseWith(held, ErrorReplyFor(reader_.head()->path, held));
  } else if (reader_.is_done() && site_.options.take != nullptr) {
    BeTaken();
  } else if (reader_.is_done() || is_enough_) {
    Dispatch();
  } else if (reader_.TakeContinue()) {
    SendContinue();
  } else {
    Read();
  }
}

absl::Status Connection::Hold(int64_t bytes) {
  const bool is_held =
      site_.options.memory == nullptr || bytes <= held_.bytes() || held_.Resize(bytes);
  return is_held ? absl::OkStatus() : site_.options.memory->Refusal(bytes);
}

void Connection::SendContinue() {
  head_out_ = "HTTP/1.1 100 Continue\r\n\r\n";
  transport_->Write(boost::asio::buffer(head_out_),
                    [self = shared_from_this()](const Error& error, size_t) {
                      if (error || self->is_gone() || self->timed_out_) {
                        self->End();
                        return;
                      }
                      self->Read();
                    });
}

HttpRequest Connection::MakeCall() {
  HttpRequest call;
  call.method = reader_.head()->method;
  call.path = reader_.head()->path;
  call.header = [head = reader_.head()](const char* name) { return head->Value(name); };
  call.peers = peers_;
  return call;
}

void Connection::BeTaken() {
  phase_ = Phase::kGone;
  Disarm();
  site_.open.SetTaken(place_);
  TakenConnection taken{std::move(transport_), reader_.head(), MakeCall(), shared_from_this()};
  buffer_ = std::vector<char>();
  received_ = std::string();
  site_.options.take(taken);
}

void Connection::Dispatch() {
  phase_ = Phase::kHandling;
  Disarm();
  buffer_ = std::vector<char>();
  const auto call = std::make_shared<HttpRequest>(MakeCall());
  call->arrived = SteadyNow();
  call->body = reader_.TakeBody();
  // The client that has sent its next request is there, whatever it has closed since.
  SSL* const tls = transport_->tls();
  const bool has_more = !received_.empty() || (tls != nullptr && SSL_pending(tls) > 0);
  call->abandoned = [fd = transport_->socket().native_handle(), has_more] {
    return !has_more && HasHungUp(fd);
  };
  is_cut_ = !reader_.is_done();
  keeps_alive_ = reader_.head()->keeps_alive && !is_cut_;
  const Cors none;
  const Cors& cors = site_.options.cors == nullptr ? none : *site_.options.cors;
  if (const absl::Status status = cors.Check(*call, site_.options.has_local_name); !status.ok()) {
    RefuseWith(status, ErrorReplyFor(call->path, status));
    return;
  }
  if (site_.options.at_once != nullptr) {
    if (std::optional<HttpReply> reply = site_.options.at_once(*call)) {
      Answer(*std::move(reply));
      return;
    }
  }
  site_.open.SetBusy(place_);
  const bool is_large = call->body.size() > kLargeBody;
  const auto handle = [self = shared_from_this(), call] {
    HttpReply reply;
    const absl::Status held = self->Examine(call->body);
    if (held.ok()) {
      reply = self->Handle(*call);
    } else {
      self->Report(held);
      reply = ErrorReplyFor(call->path, held);
    }
    call->body = std::string();
    if (absl::StartsWithIgnoreCase(call->header("Content-Type"), "multipart/")) {
      self->held_.Release();  // handlers of forms reserve what they keep
    }
    self->Deliver(std::move(reply));
  };
  if (!site_.workers.Add(handle, is_large)) {
    Refuse(503);
  }
}

void Connection::Deliver(HttpReply reply, std::shared_ptr<PendingReply> from) {
  if (reply.later != nullptr) {
    if (std::optional<HttpReply> ready = reply.later->Take()) {
      ready->headers.insert(ready->headers.end(), reply.headers.begin(), reply.headers.end());
      Deliver(*std::move(ready), std::move(reply.later));
      return;
    }
    Post([self = shared_from_this(), reply = std::move(reply)]() mutable {
      self->headers_ = std::move(reply.headers);
      self->Keep(std::move(reply.later));
      self->AwaitBell();
    });
    return;
  }
  if (site_.options.compresses) {
    Compress(reader_.head()->Value("Accept-Encoding"), reply);
  }
  // Where there is no room for the answer, the request's stays reserved for it.
  held_.Resize(static_cast<int64_t>(reply.body.size()));
  Post([self = shared_from_this(), reply = std::move(reply), from = std::move(from)]() mutable {
    if (reply.next_piece != nullptr && from != nullptr) {
      self->Keep(std::move(from));
    }
    self->Answer(std::move(reply));
  });
}

void Connection::Keep(std::shared_ptr<PendingReply> later) {
  later_ = std::move(later);
  later_->bell()->Answer([weak = weak_from_this()] {
    if (std::shared_ptr<Connection> woken = weak.lock()) {
      // It ends on the listener's thread, not on one that may hold locks of the call.
      Connection& connection = *woken;
      connection.Post([woken = std::move(woken)] { woken->OnBell(); });
    }
  });
}

void Connection::AwaitBell() {
  if (has_rung_) {
    later_->Look();  // no timer runs while one ring follows another
    Ask();
    return;
  }
  phase_ = Phase::kWaiting;
  Arm(kBetweenLooks);
}

void Connection::OnBell() {
  if (phase_ == Phase::kWaiting) {
    Ask();
  } else {
    has_rung_ = true;
  }
}

void Connection::Ask() {
  has_rung_ = false;
  if (next_piece_ != nullptr) {
    AskForPiece();
  } else {
    AskForReply();
  }
}

void Connection::AskForReply() {
  phase_ = Phase::kHandling;
  Disarm();
  site_.workers.Continue([self = shared_from_this()] {
    std::optional<HttpReply> reply;
    try {
      reply = self->later_->Take();
    } catch (const std::bad_alloc&) {
      reply = ErrorReplyFor(self->reader_.head()->path, status::OutOfMemory());
    }
    if (reply.has_value()) {
      reply->headers.insert(reply->headers.end(), self->headers_.begin(), self->headers_.end());
      self->Deliver(*std::move(reply));
    } else {
      self->Post([self] { self->AwaitBell(); });
    }
  });
}

HttpReply Connection::Handle(const HttpRequest& call) const {
  try {
    return site_.handler(call);
  } catch (const std::bad_alloc&) {
    return ErrorReplyFor(call.path, status::OutOfMemory());
  } catch (...) {
    // Its text is not the client's.
    return ErrorReplyFor(call.path, absl::InternalError("the request could not be handled"));
  }
}

void Connection::Answer(HttpReply reply) {
  keeps_alive_ =
      keeps_alive_ && !site_.leaving && !site_.stopping && ++answered_ < kMaxRequestsPerConnection;
  const RequestHead& head = *reader_.head();
  const bool is_streamed = reply.next_piece != nullptr;
  is_chunked_ = is_streamed && !head.is_http_1_0;
  keeps_alive_ = keeps_alive_ && (!is_streamed || is_chunked_);  // else its end is the body's
  std::string text = HeadOf(reply);
  const bool has_body = head.method != "HEAD" && MayHaveBody(reply.status);
  if (is_streamed && has_body) {
    next_piece_ = std::move(reply.next_piece);
    Write(std::move(text), "", [this] { Ask(); });
    return;
  }
  later_ = nullptr;
  Write(std::move(text), has_body ? std::move(reply.body) : std::string(), [this] { Finish(); });
}

std::string Connection::HeadOf(const HttpReply& reply) const {
  std::string text = StatusLine(reply.status);
  for (const auto& [name, value] : reply.headers) {
    AppendField(name, value, text);
  }
  if (MayHaveBody(reply.status)) {
    AppendField("Content-Type", reply.content_type, text);
    if (is_chunked_) {
      AppendField("Transfer-Encoding", "chunked", text);
    } else if (reply.next_piece == nullptr) {
      AppendField("Content-Length", absl::StrCat(reply.body.size()), text);
    }
  }
  if (keeps_alive_) {
    AppendField("Connection", "keep-alive", text);
    const int64_t seconds = absl::ToInt64Seconds(site_.options.idle_timeout);
    AppendField("Keep-Alive", absl::StrCat("timeout=", seconds), text);
  } else {
    AppendField("Connection", "close", text);
  }
  return text + "\r\n";
}

void Connection::AskForPiece() {
  phase_ = Phase::kHandling;
  Disarm();
  site_.open.SetBusy(place_);
  site_.workers.Continue([self = shared_from_this()] {
    std::string piece;
    bool is_good = true;
    bool is_last = true;
    try {
      is_last = !self->next_piece_(piece);
    } catch (...) {
      is_good = false;  // the client sees that the end is missing
    }
    self->Post([self, is_good, is_last, piece = std::move(piece)]() mutable {
      self->OnPiece(is_good, is_last, std::move(piece));
    });
  });
}

void Connection::OnPiece(bool is_good, bool is_last, std::string piece) {
  if (!is_good) {
    End();
    return;
  }
  if (is_last) {
    next_piece_ = nullptr;
    later_ = nullptr;
    Write(is_chunked_ ? "0\r\n\r\n" : "", "", [this] { Finish(); });
    return;
  }
  if (piece.empty()) {  // sent, it would say that it was the last
    later_ == nullptr ? AskForPiece() : AwaitBell();
    return;
  }
  std::string head = is_chunked_ ? absl::StrCat(absl::Hex(piece.size()), "\r\n") : "";
  if (is_chunked_) {
    piece += "\r\n";
  }
  Write(std::move(head), std::move(piece), [this] { Ask(); });
}

void Connection::Write(std::string head, std::string body, std::function<void()> then) {
  phase_ = Phase::kWriting;
  head_out_ = std::move(head);
  body_out_ = std::move(body);
  if (body_out_.size() <= kOnePacket) {
    head_out_ += std::exchange(body_out_, "");
  }
  site_.open.SetQuiet(place_);
  Arm(site_.stopping ? std::min(kFarewellTime, site_.options.transfer_timeout)
                     : site_.options.transfer_timeout);
  WriteOut(boost::asio::buffer(head_out_), std::move(then));
}

void Connection::WriteOut(boost::asio::const_buffer bytes, std::function<void()> then) {
  transport_->Write(
      bytes, [self = shared_from_this(), then = std::move(then)](const Error& error, size_t) {
        if (error || self->is_gone()) {
          self->End();
          return;
        }
        self->head_out_ = std::move(self->body_out_);
        self->body_out_ = std::string();
        if (self->head_out_.empty()) {
          then();
        } else {
          self->WriteOut(boost::asio::buffer(self->head_out_), then);
        }
      });
}

void Connection::Finish() {
  if (keeps_alive_ && !site_.stopping) {
    AwaitRequest();
  } else {
    Close();
  }
}

void Connection::Refuse(int status) {
  const std::string& path = reader_.head()->path;
  if (status == 405 && !site_.options.takes_post) {
    RefuseWith(WrongMethod("GET, HEAD"), WrongMethodReply(path, "GET, HEAD"));
  } else {
    RefuseWith(Refusal(status), RefusalReply(path, status));
  }
}

void Connection::RefuseWith(const absl::Status& why, HttpReply reply) {
  Report(why);
  keeps_alive_ = false;
  is_chunked_ = false;
  std::string text = HeadOf(reply);
  Write(std::move(text), reader_.head()->method == "HEAD" ? "" : std::move(reply.body),
        [this] { Close(); });
}

void Connection::Report(const absl::Status& why) const {
  if (site_.options.refused == nullptr) {
    return;
  }
  HttpRequest call;
  call.method = reader_.head()->method;
  call.path = reader_.head()->path;
  call.header = [head = reader_.head()](const char* name) { return head->Value(name); };
  site_.options.refused(call, why);
}

void Connection::Close() {
  phase_ = Phase::kClosing;
  reader_.Reset();
  held_.Release();
  received_ = std::string();
  timed_out_ = false;
  // A client whose body was cut still sends it before it reads the answer.
  Arm(is_cut_ && !site_.stopping ? site_.options.transfer_timeout : kFarewellTime);
  transport_->EndTls([self = shared_from_this()](const Error&, size_t) {
    if (self->is_gone()) {
      return;
    }
    Error ignored;
    self->transport_->socket().shutdown(boost::asio::socket_base::shutdown_send, ignored);
    self->Discard(kMaxDiscarded);
  });
}

void Connection::Discard(size_t left) {
  transport_->socket().async_wait(
      boost::asio::socket_base::wait_read, [self = shared_from_this(), left](const Error& error) {
        if (error || self->is_gone()) {
          self->End();
          return;
        }
        if (left == kMaxDiscarded) {  // it may be little, and the client gone
          self->OnDropped(self->Drop(kMostReadBytes), left);
        } else if (self->may_drop_ > 0) {
          self->DropInTurn(left);
        } else {
          self->may_drop_ = kMostDropped;
          const absl::Duration wait = self->site_.drops.Next(SteadyNow());
          self->turn_->expires_after(absl::ToChronoNanoseconds(wait));
          self->turn_->async_wait([self, left](const Error&) {
            if (!self->is_gone()) {
              self->DropInTurn(left);
            }
          });
        }
      });
}

void Connection::DropInTurn(size_t left) {
  const auto drop = [self = shared_from_this(), left] {
    const LongTimeSlices slices;
    const std::optional<size_t> dropped = self->Drop(self->may_drop_);
    self->Post([self, dropped, left] {
      self->phase_ = Phase::kClosing;
      self->may_drop_ -= dropped.value_or(0);
      self->OnDropped(self->ends_ || self->timed_out_ ? std::nullopt : dropped, left);
    });
  };
  phase_ = Phase::kInTurn;
  if (site_.options.bodies != nullptr) {
    site_.options.bodies->Post(drop);
  } else {
    drop();
  }
}

std::optional<size_t> Connection::Drop(size_t most) {
  // The kernel drops the bytes, which costs less than to copy them (tcp(7), MSG_TRUNC).
  const ssize_t size =
      recv(transport_->socket().native_handle(), nullptr, most, MSG_TRUNC | MSG_DONTWAIT);
  if (size > 0) {
    return static_cast<size_t>(size);
  }
  return size < 0 && (errno == EAGAIN || errno == EINTR) ? std::optional<size_t>(0) : std::nullopt;
}

void Connection::OnDropped(std::optional<size_t> dropped, size_t left) {
  if (!dropped.has_value() || *dropped >= left) {
    End();
  } else {
    Discard(left - *dropped);
  }
}

void Connection::End() {
  if (is_gone()) {
    return;
  }
  phase_ = Phase::kGone;
  Disarm();
  turn_->cancel();
  next_piece_ = nullptr;
  later_ = nullptr;
  Error ignored;
  transport_->socket().shutdown(boost::asio::socket_base::shutdown_both, ignored);
  transport_->socket().close(ignored);
}

void Connection::Arm(absl::Duration timeout) {
  const uint64_t round = ++round_;
  timer_->expires_after(absl::ToChronoNanoseconds(std::min(timeout, kLongestTimeout)));
  timer_->async_wait([self = shared_from_this(), round](const Error& error) {
    if (!error && round == self->round_) {
      self->OnTimeout();
    }
  });
}

void Connection::Disarm() {
  ++round_;
  timer_->cancel();
}

void Connection::OnTimeout() {
  switch (phase_) {
    case Phase::kHandshake:
      Report(Refusal(408));
      End();
      break;
    case Phase::kReading: {
      // The read under way ends, and the refusal follows.
      timed_out_ = true;
      Error ignored;
      transport_->socket().cancel(ignored);
      break;
    }
    case Phase::kInTurn:
      timed_out_ = true;
      break;
    case Phase::kIdle:
    case Phase::kWriting:
    case Phase::kClosing:
      End();
      break;
    case Phase::kWaiting:
      later_->Look();
      Arm(kBetweenLooks);
      break;
    case Phase::kHandling:
    case Phase::kGone:
      break;
  }
}

void Connection::EndUnlessBusy() {
  if (phase_ == Phase::kInTurn) {
    ends_ = true;
  } else if (!is_busy()) {
    End();
  }
}

void Connection::MakeRoom() {
  Post([self = shared_from_this()] { self->EndUnlessBusy(); });
}

void Connection::Leave() {
  Post([self = shared_from_this()] {
    if (self->phase_ == Phase::kWriting) {
      self->Arm(std::min(kFarewellTime, self->site_.options.transfer_timeout));
    } else {
      self->EndUnlessBusy();
    }
  });
}

}  // namespace beamwright::http
