// Session: one client of the WebSocket listener, from its first byte to its last. It is admitted as
// an HTTP request is; then every source that it sends is a Recognize call like any other
// (serving::Recognition), in the words of sherpa-onnx's online server: binary messages are sound,
// the text "Done" ends it, JSON objects are answers, and the text "Done!" says that there are no
// more. The next binary message begins another source; one that comes before is a fault. A source
// that fails ends the connection, after an object that says why.
//
// A client that reads slowly gets fewer answers, each of which says all that is known of its
// segment; one that does not read at all is let go. One that sends more than the engine reads is
// not read from until there is room.
#ifndef BEAMWRIGHT_SERVER_WEBSOCKET_SESSION_H_
#define BEAMWRIGHT_SERVER_WEBSOCKET_SESSION_H_

#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access.h"
#include "server/http/cors.h"
#include "server/serving/memory_account.h"
#include "server/serving/recognition.h"
#include "server/websocket/stream_query.h"
#include "server/websocket/web_socket.h"

namespace beamwright::websocket {

// Whether sessions may still be notified: the calls that they wait for may outlive the listener.
struct Doorbell {
  absl::Mutex mutex;
  bool works ABSL_GUARDED_BY(mutex) = true;
};

// What all sessions share; it outlives them.
struct Site {
  serving::Core& core;
  const access::Access& access;
  // Pages of other hosts that may connect from a browser.
  const http::Cors& cors;
  std::string default_model;
  // Until an answer must have left, and how long a client may say nothing before it is asked
  // whether it is there, and then again before it is let go.
  absl::Duration transfer_timeout;
  absl::Duration quiet_time;
  std::shared_ptr<Doorbell> doorbell = std::make_shared<Doorbell>();
};

// Lives until its connection has ended.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(const Site& site, std::unique_ptr<WebSocket> socket);
  // The client is gone.
  ~Session();

  void Start();
  // The connection ends when the source under way is answered, or at once without one. On any
  // thread.
  void Leave();

 private:
  void OnRequest(Outcome outcome);
  // Whether the request may become a WebSocket; reads what it asks for.
  absl::Status Admit();
  // A page in a browser may come from anywhere; it says from where.
  absl::Status CheckOrigin() const;
  absl::StatusOr<access::Identity> Identify() const;
  serving::Caller MakeCaller() const;
  void Refuse(const absl::Status& why);

  void OnMessage(bool is_text, std::string payload);
  // Begins a source, and its call.
  absl::Status Begin();
  // Starts what can be started: a read, a write, the end.
  void Advance();
  // Takes what is known of the source; false if it is nothing.
  bool TakeAnswers();
  // Holds memory for answers that are not sent; false if memory lacks.
  bool HoldTexts();
  void EndSource(const absl::Status& status);
  // There is no memory for what the client sends.
  void EndForMemory();
  void EndWith(int code, absl::string_view reason);
  // If the server stops and no source is under way.
  void EndIfLeaving();
  // The connection has ended.
  void OnGone();
  // Looks after clients that have gone without a word, or do not read.
  void Watch();
  // Calls Advance on the connection's executor.
  std::function<void()> Waker();

  const Site& site_;
  const std::unique_ptr<WebSocket> socket_;
  boost::asio::steady_timer watch_;
  std::optional<StreamQuery> query_;
  std::string protocol_;  // of those that the client offers
  std::string token_;     // that a page sends as one of them: "Bearer ..."

  std::shared_ptr<serving::Recognition> recognition_;  // of the source under way
  std::optional<SherpaJson> json_;                     // its answers
  bool is_complete_ = false;                           // the client has said that it is
  absl::Status early_;                                 // and has then said more, too early
  std::deque<std::string> texts_;                      // to be written
  int64_t written_bytes_ = 0;                          // of the write under way
  serving::MemoryAccount::Hold texts_hold_;            // for these
  std::optional<std::pair<int, std::string>> end_;     // once they are
  bool is_plain_ = false;  // the request is whole, and not for a WebSocket
  bool is_open_ = false;   // it is a WebSocket
  bool leaving_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool pinging_ = false;
  bool closing_ = false;
  bool gone_ = false;
  absl::Time heard_ = absl::InfinitePast();    // the last sign of the client
  absl::Time written_ = absl::InfinitePast();  // when the write under way began
};

}  // namespace beamwright::websocket

#endif  // BEAMWRIGHT_SERVER_WEBSOCKET_SESSION_H_
