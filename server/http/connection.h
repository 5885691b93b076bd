// Connection: one client of an HTTP listener, from its first byte to its last: reads a request, has
// it answered on a worker, writes the answer, and reads the next. Private to server/http/.
#ifndef BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_
#define BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/http/body_scan.h"
#include "server/http/listener.h"
#include "server/http/listener_parts.h"
#include "server/http/replies.h"
#include "server/http/request_reader.h"
#include "server/http/transport.h"

namespace beamwright::http {

// What the connections of a listener share; it outlives them.
struct ConnectionSite {
  const ListenerOptions& options;
  const Handler& handler;
  Workers& workers;
  OpenConnections& open;
  // What is left of bodies that were answered early is dropped by turns, so that a client that
  // sends such bodies again and again takes little time.
  Turns drops{absl::Milliseconds(5)};
  std::atomic<bool> leaving{false};  // each answer is the last of its connection
  std::atomic<bool> stopping{false};
};

// The whole answer to a connection that is not served any further.
std::string LastAnswer(int status);

// Lives until its connection has ended. Where no thread is named, functions run on the executor of
// the socket.
class Connection final : public OpenConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionSite& site, std::unique_ptr<Transport> transport);
  ~Connection() override;

  // Enters it in the account of the listener and serves it. On any thread.
  void Start();
  void MakeRoom() override;
  void Leave() override;

 private:
  enum class Phase {
    kHandshake,
    kIdle,      // until the first byte of a request
    kReading,   // a request
    kInTurn,    // a large body is read, or what is left of one dropped, on the thread for that
    kHandling,  // a worker has it: the socket stays open
    kWaiting,   // for an answer, or a piece, that is not there yet: as well
    kWriting,   // an answer, or a piece of one
    kClosing,   // until the client has heard the end
    kGone,
  };
  using Error = boost::system::error_code;

  void Shake();
  void AwaitRequest();
  void Read();
  void OnRead(const Error& error, size_t size);
  // Takes bytes of the request, or what was received before, as far as they go, and reserves memory
  // for it.
  absl::Status Take(absl::string_view bytes);
  // Reserves memory for what has come of the body and for its values.
  absl::Status Examine(absl::string_view body);
  // Goes on with what was taken.
  void Proceed(const absl::Status& held);
  // Has a large body read on.
  void Fill();
  struct Filled {
    Error error;  // would_block: nothing more was there
    absl::Status held;
  };
  // Reads and takes what is there, up to a turn's bytes.
  Filled TakeTurn();
  void OnFilled(const Filled& filled);
  // Now, or when what runs for it has ended.
  void EndUnlessBusy();
  void SendContinue();
  // Reserves memory for the request in all.
  absl::Status Hold(int64_t bytes);
  // Hands the connection over.
  void BeTaken();
  // Gives the request to a worker.
  void Dispatch();
  HttpRequest MakeCall();
  HttpReply Handle(const HttpRequest& call) const;
  // What a worker does with a reply.
  void Deliver(HttpReply reply, std::shared_ptr<PendingReply> from = nullptr);
  // Keeps what the answer comes from, and hears its bell.
  void Keep(std::shared_ptr<PendingReply> later);
  // Waits for what the bell of the answer has to ring for, unless it has rung meanwhile.
  void AwaitBell();
  void OnBell();
  // Has a worker take the answer, or the next piece.
  void Ask();
  void AskForReply();
  void Answer(HttpReply reply);
  std::string HeadOf(const HttpReply& reply) const;
  void AskForPiece();
  void OnPiece(bool is_good, bool is_last, std::string piece);
  void Write(std::string head, std::string body, std::function<void()> then);
  void WriteOut(boost::asio::const_buffer bytes, std::function<void()> then);
  // The answer has left.
  void Finish();
  // Answers a request that does not get as far as a handler; the connection ends.
  void Refuse(int status);
  void RefuseWith(const absl::Status& why, HttpReply reply);
  void Report(const absl::Status& why) const;
  // Closing with unread bytes would reset the connection and take the answer away from the client.
  void Close();
  void Discard(size_t left);
  void DropInTurn(size_t left);
  // Drops up to `most` bytes that have come, and returns their number; nothing where no more comes.
  // On any thread.
  std::optional<size_t> Drop(size_t most);
  void OnDropped(std::optional<size_t> dropped, size_t left);
  void End();

  // Something works for the client: the connection does not make room.
  bool is_busy() const { return phase_ == Phase::kHandling || phase_ == Phase::kWaiting; }
  bool is_gone() const { return phase_ == Phase::kGone; }
  // OnTimeout after `timeout`, unless it is called again meanwhile.
  void Arm(absl::Duration timeout);
  void Disarm();
  void OnTimeout();
  // On the executor.
  template <typename Function>
  void Post(Function function);

  ConnectionSite& site_;
  std::unique_ptr<Transport> transport_;  // null once it is taken
  OpenConnections::Place place_;
  bool has_place_ = false;
  std::optional<boost::asio::steady_timer> timer_;
  std::optional<boost::asio::steady_timer> turn_;  // until more is dropped
  uint64_t round_ = 0;                             // of the timer
  Phase phase_ = Phase::kHandshake;
  RequestReader reader_;
  size_t timed_bytes_ = 0;    // of the body, until the timer begins anew
  std::string received_;      // and not taken yet
  std::vector<char> buffer_;  // of the read under way
  bool fills_reads_ = false;  // there was more than a usual read takes
  std::optional<BodyScan> scan_;
  bool is_enough_ = false;  // the handler refuses the body, whatever follows
  bool is_cut_ = false;     // its request is answered without the rest
  bool ends_ = false;       // after the turn of its body
  size_t may_drop_ = 0;     // bytes until the next turn
  bool timed_out_ = false;
  int answered_ = 0;  // requests
  std::vector<std::string> peers_;
  // Of the request that is answered.
  bool keeps_alive_ = false;
  bool is_chunked_ = false;
  std::shared_ptr<PendingReply> later_;
  std::vector<std::pair<std::string, std::string>>
      headers_;            // for the answer that comes from there
  bool has_rung_ = false;  // while a worker took what there was
  std::function<bool(std::string& piece)> next_piece_;
  serving::MemoryAccount::Hold held_;  // for the request, and then for its answer
  std::string head_out_;
  std::string body_out_;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_CONNECTION_H_
