// BodyScan: counts what a large body holds while it comes, so that a body which its handler refuses
// is not read to its end, and memory for the values of JSON is reserved before they are made.
// Private to server/http/.
#ifndef BEAMWRIGHT_SERVER_HTTP_BODY_SCAN_H_
#define BEAMWRIGHT_SERVER_HTTP_BODY_SCAN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/bundle/proto_text.h"
#include "server/http/request_reader.h"

namespace beamwright::http {

class BodyScan {
 public:
  // head: of the body's request.
  explicit BodyScan(const RequestHead& head);

  // Counts the next bytes. False: the handler of the path refuses what has come, whatever follows.
  bool Add(absl::string_view bytes);
  // Of the body so far.
  size_t num_bytes() const { return num_bytes_; }
  // Of the body so far, and of what is made of its values.
  int64_t held_bytes() const;

 private:
  enum class Form { kUnknown, kJson, kFields, kOther };

  const std::string path_;
  const std::string content_type_;
  Form form_ = Form::kUnknown;  // until the first byte
  bundle::JsonBounds json_;
  size_t json_bytes_;           // from where on the body is no JSON
  int64_t num_separators_ = 0;  // of fields
  bool is_enough_ = false;
  size_t num_bytes_ = 0;
};

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_BODY_SCAN_H_
