#include "engine/bundle/text_proto.h"

#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/utf8.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
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

using EnumsByField = std::map<std::string, std::set<const google::protobuf::EnumDescriptor*>>;

// The enums of a message and of those in it, by the names of their fields.
void CollectEnums(const google::protobuf::Descriptor& type,
                  std::set<const google::protobuf::Descriptor*>& seen, EnumsByField& enums) {
  if (!seen.insert(&type).second) {
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    if (field.enum_type() != nullptr) {
      enums[field.name()].insert(field.enum_type());
    } else if (field.message_type() != nullptr) {
      CollectEnums(*field.message_type(), seen, enums);
    }
  }
}

std::string Names(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (!absl::EndsWith(type.value(i)->name(), "_UNSPECIFIED")) {
      names.push_back(type.value(i)->name());
    }
  }
  return absl::StrJoin(names, ", ");
}

// protobuf's `Unknown enumeration value of "X" for field "form".` with the values that there are.
std::string WithAllowedNames(const std::string& error, const google::protobuf::Message& message) {
  constexpr absl::string_view kField = " for field \"";
  const size_t at = absl::string_view(error).find(kField);
  if (!absl::StrContains(error, "Unknown enumeration value") || at == absl::string_view::npos) {
    return error;
  }
  const size_t begin = at + kField.size();
  std::set<const google::protobuf::Descriptor*> seen;
  EnumsByField enums;
  CollectEnums(*message.GetDescriptor(), seen, enums);
  const auto& types = enums[error.substr(begin, error.find('"', begin) - begin)];
  // Fields of one name may have different types.
  return types.size() == 1 ? absl::StrCat(error, " Allowed are ", Names(**types.begin())) : error;
}

}  // namespace

absl::Status ParseTextProto(const std::string& text, google::protobuf::Message& message) {
  BW_RETURN_IF_ERROR(CheckUtf8(text));
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) {
    return Invalid("1:1: starts with a byte order mark; save the file without it");
  }
  ErrorList errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxNesting);
  if (!parser.ParseFromString(text, &message)) {
    std::vector<std::string> faults;
    for (const std::string& error : errors.errors()) {
      faults.push_back(WithAllowedNames(error, message));
    }
    return Invalid(faults.empty() ? "cannot be parsed" : absl::StrJoin(faults, "; "));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::bundle
