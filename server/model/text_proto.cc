#include "server/model/text_proto.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "ops/base/status.h"
#include "server/model/utf8.h"

namespace beamwright::model {
namespace {

constexpr int kMaxNesting = 16;
constexpr size_t kMaxErrors = 20;

// Keeps what the parser has to say; without it protobuf would print it.
class ErrorList : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    // Positions come from 0; -1 is the file as a whole.
    if (errors_.size() < kMaxErrors) {
      errors_.push_back(line < 0 ? message
                                 : absl::StrCat(line + 1, ":", column + 1, ": ", message));
    }
  }
  void AddWarning(int line, google::protobuf::io::ColumnNumber column,
                  const std::string& message) override {
    AddError(line, column, message);
  }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::vector<std::string> errors_;
};

}  // namespace

absl::Status ParseTextProto(const std::string& text, google::protobuf::Message& message) {
  BW_RETURN_IF_ERROR(CheckUtf8(text));
  ErrorList errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxNesting);
  if (!parser.ParseFromString(text, &message)) {
    return Invalid(errors.errors().empty() ? "cannot be parsed"
                                           : absl::StrJoin(errors.errors(), "; "));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::model
