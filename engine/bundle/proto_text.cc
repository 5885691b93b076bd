// Reads messages from text that people write. ParseTextProto reads protobuf's text form: at most 16
// levels deep, with up to 20 errors as line:column: message in one status, and with the allowed
// names where an enum's value is unknown. The rest of the file checks JSON around protobuf's own
// reader.
//
// Last the files of a bundle with a request on each line.
#include "engine/bundle/proto_text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/status/fault.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

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

// Checks JSON texts around protobuf's reader, which is lenient and unbounded. JsonBounds, before
// it: how many values, objects and lists the text has and how deep they nest, since the reader
// would spend memory and stack on them; and commas that it passes over. CheckStrictJson, after it:
// what the reader has changed without an error (a member that is there twice, null in a list, a
// list within a list).
//
// Both read the text once, without recursion, whatever it contains: if it is no JSON, the reader
// says so. The reader takes names without quotes and single quotes, too.

namespace {

constexpr absl::string_view kWordEnds = ",:{}[]\"' \t\r\n";

constexpr std::array<bool, 256> EndsOfWords() {
  std::array<bool, 256> ends = {};
  for (const char c : kWordEnds) {
    ends[static_cast<unsigned char>(c)] = true;
  }
  return ends;
}

constexpr std::array<bool, 256> kEndsWord = EndsOfWords();

absl::Status TooMany(int64_t most, const char* what) {
  return Invalid("the JSON has more than ", most, " ", what,
                 "; send it as several calls, or tensors as binary data");
}

}  // namespace

absl::Status JsonBounds::Add(absl::string_view piece) {
  const char* at = piece.data();
  const char* const end = at + piece.size();
  while (at != end) {
    switch (place_) {
      case Place::kBetween: {
        const Fault fault = Begin(*at);
        if (fault != Fault::kNone) {
          return StatusOf(fault, num_bytes_ + static_cast<size_t>(at - piece.data()));
        }
        ++at;
        break;
      }
      case Place::kWord:
        while (at != end && !kEndsWord[static_cast<unsigned char>(*at)]) {
          ++at;
        }
        place_ = at != end ? Place::kBetween : place_;
        break;
      case Place::kString:
        while (at != end && *at != quote_ && *at != '\\') {
          ++at;
        }
        if (at != end) {
          place_ = *at++ == '\\' ? Place::kEscape : Place::kBetween;
        }
        break;
      case Place::kEscape:
        ++at;
        place_ = Place::kString;
        break;
    }
  }
  num_bytes_ += piece.size();
  return absl::OkStatus();
}

inline JsonBounds::Fault JsonBounds::Begin(char c) {
  switch (c) {
    case '{':
    case '[':
      needs_value_ = false;
      return ++num_containers_ > kMaxJsonContainers ? Fault::kContainers
             : ++depth_ > kMaxJsonDepth             ? Fault::kDepth
                                                    : Fault::kNone;
    case '}':
    case ']':
      if (depth_ == 0) {
        return Fault::kNone;
      }
      --depth_;
      return needs_value_ ? Fault::kBracket : Fault::kNone;
    case ',':
      if (depth_ == 0) {
        return Fault::kNone;
      }
      return std::exchange(needs_value_, true) ? Fault::kComma : Fault::kNone;
    case ':':
    case ' ':
    case '\t':
    case '\r':
    case '\n':
      return Fault::kNone;
    default:
      needs_value_ = false;
      quote_ = c;
      place_ = c == '"' || c == '\'' ? Place::kString : Place::kWord;
      return ++num_scalars_ > max_scalars_ ? Fault::kScalars : Fault::kNone;
  }
}

absl::Status JsonBounds::StatusOf(Fault fault, size_t at) const {
  switch (fault) {
    case Fault::kContainers:
      return TooMany(kMaxJsonContainers, "objects and lists");
    case Fault::kScalars:
      return TooMany(max_scalars_, "names, numbers and strings");
    case Fault::kDepth:
      return Invalid("the JSON is nested deeper than ", kMaxJsonDepth, " levels");
    case Fault::kBracket:
      return Invalid("not JSON: the bracket at byte ", at, " follows a comma");
    case Fault::kComma:
      return Invalid("not JSON: the comma at byte ", at, " follows another comma");
    case Fault::kNone:
      break;
  }
  return absl::OkStatus();
}

namespace {

// Finds what the reader has changed.
class Scanner {
 public:
  explicit Scanner(absl::string_view json) : json_(json) {}

  absl::Status Run() {
    while (at_ < json_.size()) {
      BW_RETURN_IF_ERROR(Next());
    }
    return absl::OkStatus();
  }

 private:
  // An object or a list that is open.
  struct Level {
    bool is_list = false;
    bool at_key = false;    // objects: a member's name comes next
    size_t index = 0;       // lists: of the element that is under way
    absl::string_view key;  // objects: of the member that is under way
    size_t first_key = 0;   // objects: theirs are those of keys_ from here on
  };

  absl::Status Next() {
    const char c = json_[at_];
    switch (c) {
      case '{':
      case '[':
        ++at_;
        return Open(c == '[');
      case '}':
      case ']':
        ++at_;
        return Close();
      case ',':
        ++at_;
        Comma();
        return absl::OkStatus();
      case ':':
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        ++at_;
        return absl::OkStatus();
      case '"':
      case '\'':
        return Scalar(String(), /*is_null=*/false);
      default: {
        const absl::string_view word = Word();
        return Scalar(word, word == "null");
      }
    }
  }

  absl::string_view String() {
    const char quote = json_[at_];
    const size_t begin = ++at_;
    while (at_ < json_.size() && json_[at_] != quote) {
      at_ += json_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, json_.size());
    return json_.substr(begin, at_++ - begin);
  }

  absl::string_view Word() {
    const size_t begin = at_;
    at_ = std::min(json_.find_first_of(kWordEnds, at_), json_.size());
    return json_.substr(begin, at_ - begin);
  }

  void Comma() {
    if (!levels_.empty()) {
      ++levels_.back().index;
      levels_.back().at_key = !levels_.back().is_list;
    }
  }

  absl::Status Scalar(absl::string_view text, bool is_null) {
    if (levels_.empty()) {
      return absl::OkStatus();
    }
    Level& level = levels_.back();
    if (level.at_key) {
      level.at_key = false;
      level.key = text;
      keys_.push_back(text);
    } else if (level.is_list && is_null) {
      return status::InvalidField(Place(), "is null; a list holds values only");
    }
    return absl::OkStatus();
  }

  absl::Status Open(bool is_list) {
    if (is_list && !levels_.empty() && levels_.back().is_list) {
      return status::InvalidField(Place(), "is a list within a list");
    }
    levels_.push_back({is_list, !is_list, 0, "", keys_.size()});
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (levels_.empty()) {
      return absl::OkStatus();
    }
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(levels_.back().first_key);
    std::sort(first, keys_.end());
    if (const auto twice = std::adjacent_find(first, keys_.end()); twice != keys_.end()) {
      levels_.back().key = *twice;
      return status::InvalidField(Place(), "stands there more than once");
    }
    keys_.erase(first, keys_.end());
    levels_.pop_back();
    return absl::OkStatus();
  }

  // The path of the element that is being read.
  std::string Place() const {
    std::string place;
    for (const Level& level : levels_) {
      if (level.is_list) {
        absl::StrAppend(&place, "[", level.index, "]");
      } else {
        absl::StrAppend(&place, place.empty() ? "" : ".", level.key);
      }
    }
    return place;
  }

  const absl::string_view json_;
  size_t at_ = 0;
  std::vector<Level> levels_;
  std::vector<absl::string_view> keys_;
};

}  // namespace

absl::Status CheckJsonBounds(absl::string_view json, int64_t max_scalars) {
  return JsonBounds(max_scalars).Add(json);
}

absl::Status CheckStrictJson(absl::string_view json) { return Scanner(json).Run(); }

// Reads a file with one request on each line, as JSON: golden requests of a bundle, which are also
// the trials of precision auto, and warm-up requests. A line has a source, which may be a text
// alone, options, and what else its reader asks for (ReadField). Of a file with more lines than
// wanted, lines at equal distances are taken, so that a file sorted by length gives all lengths.

namespace {

namespace json = google::protobuf::util;

absl::StatusOr<RequestLine> ReadLine(absl::string_view text) {
  BW_RETURN_IF_ERROR(CheckJsonBounds(text));
  RequestLine line;
  if (!json::JsonStringToMessage(std::string(text), &line.fields).ok()) {
    return Invalid("is not a JSON object");
  }
  if (const auto source = line.fields.fields().find("source");
      source != line.fields.fields().end() && source->second.has_string_value()) {
    line.source.set_text(source->second.string_value());
  } else {
    BW_RETURN_IF_ERROR(ReadField(line.fields, "source", false, line.source));
  }
  BW_RETURN_IF_ERROR(ReadField(line.fields, "options", false, line.options));
  return line;
}

}  // namespace

absl::Status ReadField(const google::protobuf::Struct& line, const std::string& field,
                       bool is_inside, google::protobuf::Message& message) {
  const auto found = line.fields().find(field);
  if (found == line.fields().end()) {
    return Invalid("has no field '", field, "'");
  }
  std::string text;
  auto status = json::MessageToJsonString(found->second, &text);
  if (status.ok()) {
    text = is_inside ? absl::StrCat("{\"", field, "\":", text, "}") : text;
    status = json::JsonStringToMessage(text, &message);
  }
  return status.ok()
             ? absl::OkStatus()
             : Invalid("field '", field,
                       "': ", absl::string_view(status.message().data(), status.message().size()));
}

absl::StatusOr<std::vector<RequestLine>> ReadRequestLines(const std::string& content,
                                                          int max_requests) {
  std::vector<std::pair<int, absl::string_view>> texts;
  int number = 0;
  for (const absl::string_view text : absl::StrSplit(content, '\n')) {
    ++number;
    if (!text.empty()) {
      texts.emplace_back(number, text);
    }
  }
  std::vector<RequestLine> lines;
  const size_t count = std::min(texts.size(), static_cast<size_t>(max_requests));
  for (size_t i = 0; i < count; ++i) {
    const auto& [at, text] = texts[i * texts.size() / count];
    absl::StatusOr<RequestLine> line = ReadLine(text);
    if (!line.ok()) {
      return Annotate(line.status(), absl::StrCat("line ", at));
    }
    line->number = at;
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace beamwright::bundle
