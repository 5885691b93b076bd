// An HTTP/1.1 request from bytes that arrive in any pieces. Two readers look at the same head, and
// it is refused where they could differ: this file reads lines strictly by the RFCs, Beast's parser
// reads them again and then decodes the body.
//
// 1. Put: empty lines before a request are skipped; the rest goes to PutHead and then PutBody.
//    Bytes behind the request stay with the caller, for the next request.
// 2. PutHead collects the head byte by byte and refuses a NUL, a bare CR or LF, and a head that is
//    too long. ReadFirstLine checks method, target (PathOf) and version as soon as the line has
//    come, so that logs have the path.
// 3. Judge, for the whole head: each line is a field; JudgeFields checks Host, path and method;
//    JudgeLength where the body ends: one Content-Length or one "chunked", never both. Then Beast
//    must agree.
// 4. PutBody feeds Beast, and bounds the body and what chunks add to it.
//
// Statuses: 400 malformed, 405 method, 413 body, 414 target, 415 compressed body, 431 head. After a
// refusal no further byte of the connection can be understood, so it is closed.
#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/http/request_parts.h"

namespace beamwright::http {
namespace {

namespace beast_http = boost::beast::http;

constexpr size_t kMaxPathBytes = 1024;
// Most bytes of chunk sizes and trailers together.
constexpr size_t kMaxFraming = 64 << 10;
constexpr absl::string_view kLineEnd = "\r\n";
constexpr absl::string_view kHeadEnd = "\r\n\r\n";

// RFC 9110, 5.6.2.
bool IsTokenChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         (c != '\0' && absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos);
}

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

// RFC 9110, 5.5: no control character but the tab. Bytes above 127 have no meaning and do no harm.
bool IsFieldValue(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7f); });
}

// A host and perhaps a port, without a name before '@' (RFC 9110, 4.2.4).
bool IsAuthority(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           (c != '\0' && absl::string_view("-._~%!$&'()*+,;=:[]").find(static_cast<char>(c)) !=
                             absl::string_view::npos);
  });
}

// The path of a target in the forms of RFC 9112, 3.2, except that of CONNECT.
bool PathOf(absl::string_view method, absl::string_view target, std::string& path) {
  const bool is_plain = std::all_of(target.begin(), target.end(), [](unsigned char c) {
    return c > 0x20 && c != 0x7f && c != '#';
  });
  if (!is_plain || target.empty()) {
    return false;
  }
  if (target == "*") {
    path = std::string(target);
    return method == "OPTIONS";
  }
  if (target[0] != '/') {
    const size_t scheme = target.find("://");
    if (scheme == absl::string_view::npos ||
        (!absl::EqualsIgnoreCase(target.substr(0, scheme), "http") &&
         !absl::EqualsIgnoreCase(target.substr(0, scheme), "https"))) {
      return false;
    }
    target.remove_prefix(scheme + 3);
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0 || !IsAuthority(target.substr(0, end))) {
      return false;
    }
    target.remove_prefix(end);
  }
  target = target.substr(0, target.find('?'));
  return target.empty() ? (path = "/", true) : Unescape(target, path);
}

}  // namespace

std::string RequestHead::Value(absl::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (absl::EqualsIgnoreCase(key, name)) {
      return value;
    }
  }
  return "";
}

int RequestHead::Count(absl::string_view name) const {
  return static_cast<int>(std::count_if(fields.begin(), fields.end(), [name](const auto& field) {
    return absl::EqualsIgnoreCase(field.first, name);
  }));
}

bool RequestHead::HasToken(absl::string_view name, absl::string_view token) const {
  for (const auto& [key, value] : fields) {
    if (!absl::EqualsIgnoreCase(key, name)) {
      continue;
    }
    for (const absl::string_view piece : absl::StrSplit(value, ',')) {
      if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(piece), token)) {
        return true;
      }
    }
  }
  return false;
}

struct RequestReader::Parser {
  beast_http::request_parser<beast_http::string_body> beast;
};

RequestReader::RequestReader(const RequestLimits& limits) : limits_(limits) { Reset(); }
RequestReader::~RequestReader() = default;

void RequestReader::Reset() {
  parser_ = nullptr;
  head_ = std::make_shared<RequestHead>();
  text_.clear();
  has_begun_ = has_line_ = in_body_ = is_done_ = continue_ = false;
  refusal_ = 0;
  taken_ = 0;
}

size_t RequestReader::Refuse(int status) {
  refusal_ = status;
  return 0;
}

size_t RequestReader::Put(absl::string_view bytes) {
  if (is_done_ || refusal_ != 0) {
    return 0;
  }
  size_t taken = 0;
  if (!has_begun_) {
    // RFC 9112, 2.2: empty lines before a request are no part of it; clients once sent one behind
    // a body.
    while (absl::StartsWith(bytes.substr(taken), kLineEnd)) {
      taken += kLineEnd.size();
    }
    if (bytes.substr(taken) == "\r") {
      return taken;
    }
    has_begun_ = taken < bytes.size();
  }
  if (!in_body_ && has_begun_) {
    taken += PutHead(bytes.substr(taken));
  }
  if (in_body_ && !is_done_ && refusal_ == 0) {
    taken += PutBody(bytes.substr(taken));
  }
  return taken;
}

size_t RequestReader::PutHead(absl::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const char before = text_.empty() ? '\0' : text_.back();
    if (c == '\0' || (c == '\n') != (before == '\r')) {
      return Refuse(400);
    }
    if (text_.size() >= limits_.max_head_bytes) {
      return Refuse(has_line_ ? 431 : 414);
    }
    text_ += c;
    if (c != '\n') {
      continue;
    }
    if (!has_line_) {
      ReadFirstLine();
    } else if (absl::EndsWith(text_, kHeadEnd)) {
      ReadHead();
    }
    if (refusal_ != 0 || in_body_ || is_done_) {
      return i + 1;
    }
  }
  return bytes.size();
}

void RequestReader::ReadFirstLine() {
  has_line_ = true;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripSuffix(text_, kLineEnd), ' ');
  if (words.size() != 3 || !IsToken(words[0]) ||
      (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0")) {
    Refuse(400);
    return;
  }
  std::string path;
  head_->is_http_1_0 = words[2] == "HTTP/1.0";
  if (words[0] != "CONNECT" && !PathOf(words[0], words[1], path)) {
    Refuse(400);
    return;
  }
  head_->method = std::string(words[0]);
  head_->target = std::string(words[1]);
  head_->path = std::move(path);
}

void RequestReader::ReadHead() {
  refusal_ = Judge();
  if (refusal_ != 0) {
    return;
  }
  continue_ = !is_done_ && !head_->is_http_1_0 && head_->HasToken("Expect", "100-continue");
  in_body_ = !is_done_;
  text_ = std::string();
}

// Reads the fields from the lines, then by Beast's parser, and refuses where they differ.
int RequestReader::Judge() {
  max_body_bytes_ = limits_.max_body_bytes;
  for (const BodyLimit& limit : limits_.body_limits) {
    max_body_bytes_ = limit.path == head_->path ? limit.max_bytes : max_body_bytes_;
  }
  parser_ = std::make_unique<Parser>();
  parser_->beast.header_limit(static_cast<uint32_t>(limits_.max_head_bytes + kHeadEnd.size()));
  parser_->beast.body_limit(max_body_bytes_);
  parser_->beast.eager(false);
  // 1. Our reading of the fields, line by line.
  absl::string_view text = absl::StripSuffix(text_, kHeadEnd);
  text.remove_prefix(std::min(text.size(), text.find(kLineEnd)));
  while (absl::ConsumePrefix(&text, kLineEnd)) {
    const absl::string_view line = text.substr(0, text.find(kLineEnd));
    text.remove_prefix(line.size());
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon)) ||
        !IsFieldValue(line.substr(colon + 1))) {
      return 400;
    }
    head_->fields.emplace_back(line.substr(0, colon),
                               absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  if (const int status = JudgeFields(); status != 0) {
    return status;
  }
  bool has_body = false;
  if (const int status = JudgeLength(has_body); status != 0) {
    return status;
  }
  // 2. Beast's reading of the same bytes, which must end at the same place and agree about a body.
  boost::system::error_code error;
  const size_t parsed = parser_->beast.put(boost::asio::buffer(text_), error);
  if (error == beast_http::error::body_limit) {
    return 413;
  }
  if (error || parsed != text_.size() || parser_->beast.is_done() == has_body) {
    return 400;
  }
  is_done_ = !has_body;
  head_->keeps_alive = head_->is_http_1_0 ? head_->HasToken("Connection", "keep-alive")
                                          : !head_->HasToken("Connection", "close");
  parser_->beast.eager(true);
  return 0;
}

int RequestReader::JudgeFields() const {
  const int hosts = head_->Count("Host");
  if (hosts > 1 || (hosts == 0 && !head_->is_http_1_0) || !IsAuthority(head_->Value("Host"))) {
    return 400;
  }
  if (head_->path.size() > kMaxPathBytes) {
    return 414;
  }
  const std::string& method = head_->method;
  const bool is_taken = method == "GET" || method == "HEAD" ||
                        (limits_.takes_post && method == "POST") ||
                        (limits_.takes_options && method == "OPTIONS");
  return is_taken ? 0 : 405;
}

// Refuses heads from which programs could find different ends of the body (RFC 9112, 6.1 and 6.3).
int RequestReader::JudgeLength(bool& has_body) {
  const int encodings = head_->Count("Transfer-Encoding");
  const int lengths = head_->Count("Content-Length");
  const bool is_post = head_->method == "POST";
  // DeepL's client sends fields in the body of a GET.
  const bool may_have_length = is_post || (head_->method == "GET" && limits_.takes_post);
  if (encodings + lengths > 1) {
    return 400;
  }
  uint64_t length = 0;
  if (encodings == 1) {
    // A proxy that speaks HTTP/1.0 ignores this field and takes the body for another request.
    if (!is_post || head_->is_http_1_0 ||
        !absl::EqualsIgnoreCase(head_->Value("Transfer-Encoding"), "chunked")) {
      return 400;
    }
  } else if (lengths == 1) {
    const std::string text = head_->Value("Content-Length");
    if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
      return 400;
    }
    // Digits beyond 64 bits are a length that is too large.
    const bool fits = absl::SimpleAtoi(text, &length) && length <= max_body_bytes_;
    if (!may_have_length && text.find_first_not_of('0') != std::string::npos) {
      return 400;
    }
    if (!fits) {
      return 413;
    }
  }
  has_body = encodings == 1 || length > 0;
  // A few bytes could unpack to gigabytes.
  const std::string encoding = head_->Value("Content-Encoding");
  return encoding.empty() || absl::EqualsIgnoreCase(encoding, "identity") ? 0 : 415;
}

bool RequestReader::TakeContinue() { return std::exchange(continue_, false); }

size_t RequestReader::PutBody(absl::string_view bytes) {
  auto& beast = parser_->beast;
  size_t taken = 0;
  while (taken < bytes.size() && !beast.is_done()) {
    boost::system::error_code error;
    const size_t count =
        beast.put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += count;
    taken_ += count;
    if (error == beast_http::error::body_limit || taken_ > max_body_bytes_ + kMaxFraming) {
      return Refuse(413);
    }
    if (error && error != beast_http::error::need_more) {
      return Refuse(400);
    }
    if (error || count == 0) {
      // A line between chunks, or trailers, that has not ended.
      if (bytes.size() - taken > kMaxFraming) {
        return Refuse(400);
      }
      break;
    }
  }
  continue_ = continue_ && taken == 0;
  is_done_ = beast.is_done();
  return taken;
}

absl::string_view RequestReader::body() const {
  return in_body_ ? absl::string_view(parser_->beast.get().body()) : absl::string_view();
}

std::string RequestReader::TakeBody() {
  return in_body_ ? std::move(parser_->beast.get().body()) : std::string();
}

}  // namespace beamwright::http
