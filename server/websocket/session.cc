// A session, in the order of its functions, all on the executor of its socket:
//
//   1. Start, OnRequest, Admit: the HTTP request is read; credentials, origin, the server's phase
//      and the query are checked. Refuse answers over HTTP.
//   2. OnMessage: the first binary message of a source begins its Recognition (Begin), further ones
//      add sound, the text "Done" completes it.
//   3. Advance starts what can be started: one read, unless the engine is behind; one write, of
//      answers that TakeAnswers has turned into JSON; the close, once all is written. It is called
//      after each of these ends, and by Waker when the recognition has news.
//   4. EndSource, EndWith: the source is answered, or the connection ends with a code.
//
// Watch looks after clients that have gone without a word; Leave is the server's drain.
//
// A client's messages, and the server's, for two sources on one connection:
//
//   binary   samples ...              text   {"text": "good", ...}     what is stable, as it comes
//   binary   samples ...              text   {"text": "good morning", ...}
//   text     "Done"                   text   "Done!"                   behind the last answer
//   binary   samples of the second source
#include "server/websocket/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/http/replies.h"
#include "server/serving/serving_state.h"

namespace beamwright::websocket {
namespace {

constexpr char kMethod[] = "/beamwright.v1.RecognizeService/Recognize";
constexpr char kEndOfSource[] = "Done";
constexpr char kEndOfAnswers[] = "Done!";
// What pages offer as protocols, which is all that a browser lets them say of themselves: this one,
// which is chosen, and a token behind the other, in base64url.
constexpr char kProtocol[] = "beamwright";
constexpr char kBearerProtocol[] = "beamwright.bearer.";

// RFC 6455, 7.4.1.
constexpr int kGoingAway = 1001;
constexpr int kBadPayload = 1007;
constexpr int kPolicy = 1008;
constexpr int kInternal = 1011;
constexpr int kTryAgainLater = 1013;

// 1007: a message or the query is wrong. 1008: not found, not allowed, or too late. 1013: to be
// tried again later. 1001: this server stops, another replica may answer.
int CloseCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kBadPayload;
    case absl::StatusCode::kUnavailable:
      return status::ReasonOf(status) == status::reason::kShuttingDown ? kGoingAway
                                                                       : kTryAgainLater;
    case absl::StatusCode::kResourceExhausted:
      return kTryAgainLater;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kPolicy;
    default:
      return kInternal;
  }
}

}  // namespace

Session::Session(const Site& site, std::unique_ptr<WebSocket> socket)
    : site_(site),
      socket_(std::move(socket)),
      watch_(socket_->executor()),
      texts_hold_(site.core.memory().MakeHold()) {}

Session::~Session() {
  if (recognition_ != nullptr) {  // elsewhere: it rings the bell, which may be held here
    site_.core.replies().Post([recognition = recognition_] { recognition->GiveUp(); });
  }
}

void Session::Start() {
  socket_->ReadRequest([self = shared_from_this()](Outcome outcome) { self->OnRequest(outcome); });
}

void Session::OnRequest(Outcome outcome) {
  if (outcome == Outcome::kGone) {
    return;
  }
  if (outcome != Outcome::kOk) {
    Refuse(http::Refusal(outcome == Outcome::kTooSlow    ? 408
                         : outcome == Outcome::kTooLarge ? 414
                                                         : 400));
    return;
  }
  if (const absl::Status status = Admit(); !status.ok()) {
    Refuse(status);
    return;
  }
  socket_->OnSign([this] { heard_ = SteadyNow(); });
  socket_->Accept(protocol_, [self = shared_from_this()](Outcome accepted) {
    if (accepted == Outcome::kOk) {
      self->is_open_ = true;
      self->heard_ = SteadyNow();
      self->Watch();
      self->EndIfLeaving();
      self->Advance();
    }
  });
}

// In this order: who asks, from which page, whether the server takes work, whether it is an upgrade
// to WebSocket; only then is the query read, which names models.
absl::Status Session::Admit() {
  for (absl::string_view offered :
       absl::StrSplit(socket_->request().header("Sec-WebSocket-Protocol"), ',')) {
    offered = absl::StripAsciiWhitespace(offered);
    std::string token;
    if (offered == kProtocol) {
      protocol_ = kProtocol;
    } else if (absl::ConsumePrefix(&offered, kBearerProtocol) &&
               absl::WebSafeBase64Unescape(offered, &token)) {
      token_ = absl::StrCat("Bearer ", token);
    }
  }
  BW_RETURN_IF_ERROR(Identify().status());
  BW_RETURN_IF_ERROR(CheckOrigin());
  BW_RETURN_IF_ERROR(site_.core.state().CheckLoaded());
  BW_RETURN_IF_ERROR(site_.core.state().CheckAccepting());
  is_plain_ = !socket_->asks_for_upgrade();
  if (is_plain_) {
    return Invalid(
        "this address speaks WebSocket: the request is not an upgrade to it (GET, "
        "HTTP/1.1, Upgrade: websocket, Sec-WebSocket-Version: 13)");
  }
  BW_ASSIGN_OR_RETURN(query_,
                      ReadStreamQuery(socket_->target(), site_.default_model, site_.core.models()));
  return absl::OkStatus();
}

absl::Status Session::CheckOrigin() const {
  if (site_.cors.Admits(socket_->request())) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "pages of this origin may not connect; http-cors-origins names those that may");
}

absl::StatusOr<access::Identity> Session::Identify() const {
  const http::HttpRequest& request = socket_->request();
  std::string authorization = request.header(access::kAuthorizationHeader);
  if (authorization.empty()) {
    authorization = token_;
  }
  const std::string tenant = request.header(access::kTenantHeader);
  const std::string priority = request.header(access::kPriorityHeader);
  access::Proof proof{authorization, tenant, {request.peers.begin(), request.peers.end()}};
  proof.priority = priority;
  return site_.access.Admit(proof, access::RolesForMethod(kMethod), kMethod);
}

serving::Caller Session::MakeCaller() const {
  serving::Caller caller{serving::Method::kWebSocketRecognize};
  caller.context = http::ContextOf(socket_->request());
  if (query_.has_value() && query_->timeout < absl::InfiniteDuration()) {
    caller.deadline = SteadyNow() + query_->timeout;
  }
  return caller;
}

void Session::Refuse(const absl::Status& why) {
  serving::Caller caller{serving::Method::kWebSocketRecognize};
  if (socket_->request().header != nullptr) {
    caller.context = http::ContextOf(socket_->request());
  }
  site_.core.calls().Refuse(why, caller);
  http::HttpReply reply = http::ErrorReply(why);
  if (is_plain_) {
    reply.status = 426;
    reply.headers.emplace_back("Upgrade", "websocket");
  }
  socket_->Refuse(reply, [self = shared_from_this()](Outcome) {});
}

void Session::OnMessage(bool is_text, std::string payload) {
  heard_ = SteadyNow();
  if (end_.has_value()) {
    return;  // the client does not know yet
  }
  absl::Status status;
  if (recognition_ == nullptr) {
    status = Begin();
  }
  if (!status.ok()) {
    EndSource(status);
  } else if (is_complete_ && !(is_text && payload == kEndOfSource)) {
    early_ = Invalid("the source is complete: the next one may begin behind '", kEndOfAnswers, "'");
    recognition_->Add(early_);  // it may be answered already; the client does not know
  } else if (!is_text) {
    v1::RecognizeRequest request;
    request.set_audio(std::move(payload));
    recognition_->Add(std::move(request));
  } else if (payload == kEndOfSource) {
    is_complete_ = true;
    recognition_->Finish();
  } else {
    recognition_->Add(Invalid("a text message is '", kEndOfSource,
                              "', which ends the source; sound comes in binary messages"));
  }
}

absl::Status Session::Begin() {
  // Its token may have been taken away meanwhile.
  absl::StatusOr<access::Identity> identity = Identify();
  serving::Caller caller = MakeCaller();
  if (!identity.ok()) {
    site_.core.calls().Refuse(identity.status(), caller);
    return identity.status();
  }
  caller.tenant = identity->tenant;
  caller.priority = identity->priority;
  recognition_ = serving::Recognition::Make(site_.core, std::move(caller), Waker(), Waker());
  v1::RecognizeRequest first;
  *first.mutable_config() = query_->config;
  recognition_->Add(std::move(first));
  if (const engine::DecodeModel* const model = recognition_->model(); model != nullptr) {
    json_.emplace(*model);
  }
  return absl::OkStatus();
}

// Called on other threads. The bell's lock keeps the site from ending while a session is looked up;
// the session itself works on its executor, so it is only posted there, and may be gone by then.
std::function<void()> Session::Waker() {
  return [bell = site_.doorbell, weak = weak_from_this()] {
    const absl::MutexLock lock(&bell->mutex);
    const std::shared_ptr<Session> self = bell->works ? weak.lock() : nullptr;
    if (self != nullptr) {
      boost::asio::post(self->socket_->executor(), [weak] {
        if (const std::shared_ptr<Session> woken = weak.lock()) {
          woken->Advance();
        }
      });
    }
  };
}

// One read and one write are under way at most. While the recognition is full nothing is read, so
// that TCP slows the client down. The close is last, once all answers are written.
void Session::Advance() {
  if (gone_) {
    return;
  }
  if (!reading_ && (recognition_ == nullptr || !recognition_->is_full())) {
    reading_ = true;
    socket_->Read([self = shared_from_this()](Outcome outcome, bool is_text, std::string payload) {
      self->reading_ = false;
      if (outcome == Outcome::kTooLarge && self->recognition_ != nullptr) {
        self->recognition_->Add(status::WithReason(
            Invalid("a message has more than ", serving::kMaxPieceBytes, " bytes"),
            status::reason::kTooLarge));
      }
      if (outcome == Outcome::kNoMemory) {
        self->reading_ = true;  // there is no next message
        self->EndForMemory();
        return;
      }
      if (outcome != Outcome::kOk) {
        self->OnGone();
        return;
      }
      self->OnMessage(is_text, std::move(payload));
      self->Advance();
    });
  }
  if (writing_ || closing_) {
    return;
  }
  while (texts_.empty() && TakeAnswers()) {
  }
  if (!texts_.empty()) {
    writing_ = true;
    written_ = SteadyNow();
    std::string text = std::move(texts_.front());
    texts_.pop_front();
    written_bytes_ = static_cast<int64_t>(text.size());
    socket_->Write(std::move(text), [self = shared_from_this()](Outcome outcome) {
      self->writing_ = false;
      self->written_bytes_ = 0;
      self->HoldTexts();
      if (outcome != Outcome::kOk) {
        self->OnGone();
        return;
      }
      self->Advance();
    });
  } else if (end_.has_value()) {
    closing_ = true;
    socket_->Close(end_->first, end_->second,
                   [self = shared_from_this()](Outcome) { self->OnGone(); });
  }
}

bool Session::TakeAnswers() {
  if (recognition_ == nullptr) {
    return false;
  }
  v1::RecognizeResponse message;
  absl::Status end;
  std::vector<std::string> texts;
  switch (recognition_->Take(message, end)) {
    case serving::Recognition::Taken::kNothing:
      return false;
    case serving::Recognition::Taken::kMessage:
      json_->Append(message, is_complete_, texts);
      texts_.insert(texts_.end(), std::make_move_iterator(texts.begin()),
                    std::make_move_iterator(texts.end()));
      if (!HoldTexts()) {
        texts_.clear();
        recognition_->GiveUp();
        EndSource(serving::MemoryRunsShort());
      }
      break;
    case serving::Recognition::Taken::kEnd:
      EndSource(end.ok() ? early_ : end);
      break;
  }
  return true;
}

bool Session::HoldTexts() {
  int64_t bytes = written_bytes_;
  for (const std::string& text : texts_) {
    bytes += static_cast<int64_t>(text.size());
  }
  return texts_hold_.Resize(bytes);
}

void Session::EndSource(const absl::Status& status) {
  if (json_.has_value()) {
    std::vector<std::string> texts;
    json_->Flush(texts);
    texts_.insert(texts_.end(), texts.begin(), texts.end());
  }
  json_.reset();
  recognition_ = nullptr;
  is_complete_ = false;
  if (!status.ok()) {
    texts_.push_back(
        std::string(absl::StripTrailingAsciiWhitespace(http::ErrorReply(status).body)));
    EndWith(CloseCode(status), status::WireMessage(status));
    return;
  }
  texts_.emplace_back(kEndOfAnswers);
  EndIfLeaving();
}

void Session::EndForMemory() {
  if (recognition_ != nullptr) {
    recognition_->GiveUp();
  }
  const absl::Status why = serving::MemoryRunsShort();
  site_.core.calls().Refuse(why, MakeCaller());
  if (!end_.has_value()) {
    EndSource(why);
  }
  Advance();
}

void Session::EndWith(int code, absl::string_view reason) {
  end_.emplace(code, std::string(reason));
}

void Session::EndIfLeaving() {
  if (leaving_ && recognition_ == nullptr && !end_.has_value()) {
    EndWith(kGoingAway, "the server stops");
  }
}

void Session::Leave() {
  boost::asio::post(socket_->executor(), [self = shared_from_this()] {
    self->leaving_ = true;
    if (self->is_open_) {  // else once it is
      self->EndIfLeaving();
      self->Advance();
    }
  });
}

void Session::OnGone() {
  if (gone_) {
    return;
  }
  gone_ = true;
  if (recognition_ != nullptr) {
    recognition_->GiveUp();
    recognition_ = nullptr;
  }
  watch_.cancel();
  socket_->Drop();
}

// Looks twice in each time limit. A client that was quiet for quiet_time gets a ping, whose pong
// counts as a sign; after twice that time, or if a write takes longer than transfer_timeout, it is
// taken for gone.
void Session::Watch() {
  const absl::Duration tick = std::min(site_.quiet_time, site_.transfer_timeout) / 2;
  watch_.expires_after(absl::ToChronoNanoseconds(tick));
  watch_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->gone_) {
      return;
    }
    const absl::Time now = SteadyNow();
    const absl::Duration quiet = now - self->heard_;
    const bool is_stuck = self->writing_ && now - self->written_ > self->site_.transfer_timeout;
    // While it is not read from, nothing of it is heard.
    if (is_stuck || (self->reading_ && quiet > 2 * self->site_.quiet_time)) {
      self->OnGone();
      return;
    }
    if (!self->reading_) {
      self->heard_ = now;
    } else if (quiet > self->site_.quiet_time && !self->pinging_ && !self->closing_) {
      self->pinging_ = true;
      self->socket_->Ping([self](Outcome) { self->pinging_ = false; });
    }
    self->Watch();
  });
}

}  // namespace beamwright::websocket
