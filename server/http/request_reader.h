// RequestReader: takes a request of HTTP/1.1 from a connection's bytes, by Boost.Beast's parser and
// stricter than it: a request whose end another program could read in another way is refused, since
// a proxy in front would take what follows for another caller's request (RFC 9112, 11.2). Lines end
// with CRLF alone, no header is folded, a length is said once, and Host exactly once.
#ifndef BEAMWRIGHT_SERVER_HTTP_REQUEST_READER_H_
#define BEAMWRIGHT_SERVER_HTTP_REQUEST_READER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace beamwright::http {

struct RequestHead {
  std::string method;
  std::string target;  // as it came
  std::string path;    // unescaped, without query
  bool is_http_1_0 = false;
  // What the client asks for by its version and the header Connection.
  bool keeps_alive = false;
  std::vector<std::pair<std::string, std::string>> fields;  // as they came

  // Of the first field of this name, in any case; or empty.
  std::string Value(absl::string_view name) const;
  int Count(absl::string_view name) const;
  // Whether a comma-separated field has this token, in any case.
  bool HasToken(absl::string_view name, absl::string_view token) const;
};

// A path whose bodies have another limit.
struct BodyLimit {
  std::string path;  // unescaped
  size_t max_bytes = 0;
};

struct RequestLimits {
  size_t max_head_bytes = 64 << 10;
  size_t max_body_bytes = 4 << 20;
  std::vector<BodyLimit> body_limits;  // of paths for which max_body_bytes does not hold
  // In addition to GET and HEAD.
  bool takes_post = true;
  bool takes_options = false;
};

class RequestReader {
 public:
  explicit RequestReader(const RequestLimits& limits);
  ~RequestReader();

  // For the next request of the connection.
  void Reset();
  // Takes bytes of the request and returns how many. The caller passes the others again, with more
  // behind them. 0: the reader needs more bytes, is done, or has refused.
  size_t Put(absl::string_view bytes);

  // Whether a byte of the request has come.
  bool has_begun() const { return has_begun_; }
  bool is_done() const { return is_done_; }
  // The HTTP status that the request is refused with; 0 if it is not. Bytes behind a refused
  // request cannot be understood.
  int refusal() const { return refusal_; }
  // Whether the head was accepted and the client waits for 100 before it sends the body. True once.
  bool TakeContinue();
  // As much as is known: the first line once it has come, the fields with the head.
  const std::shared_ptr<RequestHead>& head() const { return head_; }
  // Of the body so far.
  size_t body_bytes() const { return body().size(); }
  // Until the next Put.
  absl::string_view body() const;
  std::string TakeBody();

 private:
  struct Parser;

  size_t PutHead(absl::string_view bytes);
  size_t PutBody(absl::string_view bytes);
  void ReadFirstLine();
  void ReadHead();
  // The HTTP status that a whole head is refused with; 0 if it is not.
  int Judge();
  int JudgeFields() const;
  int JudgeLength(bool& has_body);
  size_t Refuse(int status);

  const RequestLimits limits_;
  size_t max_body_bytes_ = 0;  // of the request's path
  std::unique_ptr<Parser> parser_;
  std::shared_ptr<RequestHead> head_;
  std::string text_;  // of the head so far
  bool has_begun_ = false;
  bool has_line_ = false;
  bool in_body_ = false;
  bool is_done_ = false;
  bool continue_ = false;
  int refusal_ = 0;
  size_t taken_ = 0;  // of the body as it is on the wire
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_REQUEST_READER_H_
