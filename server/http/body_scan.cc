// 1. The first byte tells the form: JSON, fields of a URL-encoded form, or another, as the handlers
//    of the path take it.
// 2. JSON is counted by JsonBounds, which the handlers ask again of the bytes that they get, and
//    fields by their separators: so the handler finds the same fault at the same byte.
#include "server/http/body_scan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "server/http/message_json.h"
#include "server/http/request_parts.h"
#include "server/http/translate_json.h"
#include "server/http/translate_routes.h"

namespace beamwright::http {
namespace {

// Where the JSON of an Open Inference request ends.
size_t JsonBytesOf(const RequestHead& head) {
  size_t bytes = std::numeric_limits<size_t>::max();
  const std::string text = head.Value(kJsonLength);
  return text.empty() || absl::SimpleAtoi(text, &bytes) ? bytes : 0;
}

int64_t MaxScalarsOf(const std::string& path) {
  return path == kCompletions || TranslateRoutes::Knows(path) ? kMaxObjectScalars
                                                              : bundle::kMaxJsonScalars;
}

}  // namespace

BodyScan::BodyScan(const RequestHead& head)
    : path_(head.path),
      content_type_(head.Value("Content-Type")),
      json_(MaxScalarsOf(path_)),
      json_bytes_(JsonBytesOf(head)) {}

bool BodyScan::Add(absl::string_view bytes) {
  if (form_ == Form::kUnknown && !bytes.empty()) {
    const MembersForm form = FormOf(content_type_, bytes[0]);
    const bool is_json = form == MembersForm::kJson || !TranslateRoutes::Knows(path_);
    form_ = form == MembersForm::kFiles || path_ == kTranscriptions ? Form::kOther
            : is_json                                               ? Form::kJson
            : form == MembersForm::kUrl                             ? Form::kFields
                                                                    : Form::kOther;
  }
  if (form_ == Form::kJson && !is_enough_ && num_bytes_ < json_bytes_) {
    is_enough_ = !json_.Add(bytes.substr(0, json_bytes_ - num_bytes_)).ok();
  } else if (form_ == Form::kFields) {
    num_separators_ += std::count(bytes.begin(), bytes.end(), '&');
    is_enough_ = num_separators_ >= kMaxFormFields;
  }
  num_bytes_ += bytes.size();
  return !is_enough_;
}

int64_t BodyScan::held_bytes() const {
  constexpr int64_t kBytesOfAValue = 32;
  return static_cast<int64_t>(num_bytes_) + kBytesOfAValue * (json_.num_values() + num_separators_);
}

}  // namespace beamwright::http
