// Writes messages as JSON: ProtobufJson in the form of protobuf's JSON with the names of the .proto
// files, WriteMessage in the form of the Open Inference Protocol, in which 64-bit integers are
// numbers and not texts.
//
// Details of errors are typed messages (google.protobuf.Any), in which clients' libraries expect
// protobuf's usual names ("retryDelay"). protobuf has one option for a whole message, so that
// DetailNames copies the text and renames the members of objects with "@type".
#include "server/http/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "google/protobuf/descriptor.h"
#include "ops/base/names.h"
#include "ops/base/rapidjson.h"
#include "ops/base/status.h"

namespace beamwright::http {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kType[] = "@type";

// "retry_delay" as protobuf names it in JSON.
std::string LowerCamelCase(absl::string_view name) {
  std::string result;
  bool upper = false;
  for (const char c : name) {
    if (c != '_') {
      result += upper ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c;
    }
    upper = c == '_';
  }
  return result;
}

// Copies JSON that protobuf has written. In an object with a type, which protobuf writes first,
// members get protobuf's usual names; names further inside, such as the keys of a map, stay.
class DetailNames : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, DetailNames> {
 public:
  explicit DetailNames(JsonWriter& json) : json_(json) {}

  bool Null() { return Done(json_.Null()); }
  bool Bool(bool value) { return Done(json_.Bool(value)); }
  // All numbers: their digits stay.
  bool RawNumber(const char* digits, rapidjson::SizeType size, bool /*copy*/) {
    return Done(json_.Json({digits, size}));
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Done(json_.String({text, size}));
  }
  bool StartObject() {
    has_type_.push_back(false);
    return Done(json_.BeginObject());
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    const absl::string_view key(text, size);
    has_type_.back() = has_type_.back() || key == kType;
    return Done(has_type_.back() ? json_.Key(LowerCamelCase(key)) : json_.Key(key));
  }
  bool EndObject(rapidjson::SizeType /*members*/) {
    has_type_.pop_back();
    return Done(json_.EndObject());
  }
  bool StartArray() { return Done(json_.BeginArray()); }
  bool EndArray(rapidjson::SizeType /*elements*/) { return Done(json_.EndArray()); }

 private:
  static bool Done(JsonWriter& /*json*/) { return true; }

  JsonWriter& json_;
  std::vector<bool> has_type_;  // of the objects that are open
};

// Element `index` of a field, or (index -1) the field itself.
#define BW_GET(type)                                 \
  (index < 0 ? reflection.Get##type(message, &field) \
             : reflection.GetRepeated##type(message, &field, index))

void WriteValue(const Message& message, const FieldDescriptor& field, int index, JsonWriter& json) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      json.Bool(BW_GET(Bool));
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      json.Int(BW_GET(Int32));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      json.Int(BW_GET(Int64));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      json.Uint(BW_GET(UInt32));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      json.Uint(BW_GET(UInt64));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      json.Float(BW_GET(Float));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json.Double(BW_GET(Double));
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      json.String(BW_GET(Enum)->name());
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      json.String(BW_GET(String));
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      WriteMessage(BW_GET(Message), json);
      break;
  }
}
#undef BW_GET

// The key of a map's entry, which JSON has as a text.
std::string KeyOf(const Message& entry) {
  const FieldDescriptor& key = *entry.GetDescriptor()->map_key();
  JsonWriter json;
  WriteValue(entry, key, -1, json);
  return key.cpp_type() == FieldDescriptor::CPPTYPE_STRING
             ? entry.GetReflection()->GetString(entry, &key)
             : json.text();
}

void WriteMap(const Message& message, const FieldDescriptor& field, JsonWriter& json) {
  const Reflection& reflection = *message.GetReflection();
  json.BeginObject();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    json.Key(KeyOf(entry));
    WriteValue(entry, *entry.GetDescriptor()->map_value(), -1, json);
  }
  json.EndObject();
}

void WriteField(const Message& message, const FieldDescriptor& field, JsonWriter& json) {
  json.Key(field.name());
  if (field.is_map()) {
    WriteMap(message, field, json);
    return;
  }
  if (!field.is_repeated()) {
    WriteValue(message, field, -1, json);
    return;
  }
  json.BeginArray();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    WriteValue(message, field, i, json);
  }
  json.EndArray();
}

}  // namespace

absl::StatusOr<std::string> ProtobufJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return absl::InternalError("the answer can't be written as JSON");
  }
  // Most answers have no errors. A text that contains the word costs a copy and nothing else.
  if (!absl::StrContains(text, kType)) {
    return text;
  }
  JsonWriter json;
  DetailNames names(json);
  rapidjson::MemoryStream stream(text.data(), text.size());
  if (!rapidjson::Reader().Parse<rapidjson::kParseNumbersAsStringsFlag>(stream, names)) {
    return absl::InternalError("the answer's errors can't be written as JSON");
  }
  return json.text();
}

void WriteDetails(const google::rpc::Status& status, JsonWriter& json) {
  json.BeginArray();
  for (const google::protobuf::Any& detail : status.details()) {
    std::string text;
    if (google::protobuf::util::MessageToJsonString(detail, &text).ok()) {
      json.Json(text);
    }
  }
  json.EndArray();
}

void WriteMessage(const Message& message, JsonWriter& json) {
  json.BeginObject();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated() || !field.has_presence() ||
        message.GetReflection()->HasField(message, &field)) {
      WriteField(message, field, json);
    }
  }
  json.EndObject();
}

// JSON bodies as protobuf messages, with errors that name the field and the nearest known name.
//
// 1. CheckJsonBounds limits depth and size before any parser that recurses.
// 2. protobuf's parser reads the body. Most requests end here.
// 3. If it refuses, an Examiner walks the parsed JSON along the message's descriptor and lists all
//    faults: wrong types, unknown fields with the field that was meant (Nearest by edit distance,
//    or PlaceOf in another message of the request). It also replaces short names of enums ("gnmt")
//    by those that protobuf knows, and the body is read again.
// 4. CheckStrictJson refuses what protobuf's parser lets pass, such as a member twice.
//
//   {"beam_sise": 5}   ->   'beam_sise' is not a field of DecodeRequest; 'options.beam_size' is

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = rapidjson::Value;

// Names are cut at this before they are compared or shown.
constexpr size_t kLongestName = 64;
constexpr size_t kMostFaults = 20;

std::string TextOf(const Json& value) { return {value.GetString(), value.GetStringLength()}; }

std::string Shown(const std::string& text) {
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, kLongestName)),
                      text.size() > kLongestName ? "..." : "", "'");
}

// Finds a field by the proto's name or by the name in protobuf's JSON form.
const FieldDescriptor* Find(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* const field = type.FindFieldByName(name);
  return field != nullptr ? field : type.FindFieldByCamelcaseName(name);
}

// Where a field of this name is in the messages of the request: "options.beam_size". Empty if
// nowhere.
std::string PlaceOf(const Descriptor& type, const std::string& name, const std::string& path) {
  if (const FieldDescriptor* const field = Find(type, name); field != nullptr) {
    return path + field->name();
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    // A message of another package, or one in itself, is not looked into.
    if (field.message_type() != nullptr && !field.is_map() && field.message_type() != &type &&
        field.message_type()->file()->package() == type.file()->package()) {
      std::string found =
          PlaceOf(*field.message_type(), name,
                  absl::StrCat(path, field.name(), field.is_repeated() ? "[]" : "", "."));
      if (!found.empty()) {
        return found;
      }
    }
  }
  return "";
}

// The field of the type whose name is nearest, if it is near.
const FieldDescriptor* Nearest(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* nearest = nullptr;
  size_t least = name.size() < 4 ? 2 : name.size() < 9 ? 3 : 4;  // smaller distances are near
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const size_t distance =
        std::min(EditDistance(name, field.name()), EditDistance(name, field.json_name()));
    if (distance < least) {
      least = distance;
      nearest = &field;
    }
  }
  return nearest;
}

// Looks through a request that protobuf refuses.
class Examiner {
 public:
  Examiner(const Descriptor& request, rapidjson::Document& document)
      : request_(request), document_(document) {}

  void Examine() { Message(request_, document_, ""); }
  const status::Faults& faults() const { return faults_; }
  // Short names were replaced by those that protobuf knows.
  bool has_changed() const { return has_changed_; }

 private:
  template <typename... Pieces>
  void Add(const std::string& path, const Pieces&... pieces) {
    if (faults_.size() < kMostFaults) {
      faults_.Add(path, pieces...);
    }
  }

  void Message(const Descriptor& type, Json& value, const std::string& path) {
    if (!value.IsObject()) {
      Add(path, path.empty() ? "the body is not a JSON object" : "is not a JSON object");
      return;
    }
    for (auto& member : value.GetObject()) {
      const std::string name = TextOf(member.name);
      if (const FieldDescriptor* const field = Find(type, name); field != nullptr) {
        Field(*field, member.value, absl::StrCat(path, path.empty() ? "" : ".", field->name()));
      } else {
        Unknown(type, name, path);
      }
    }
  }

  void Unknown(const Descriptor& type, const std::string& name, const std::string& path) {
    const std::string prefix = path.empty() ? "" : path + ".";
    std::string meant;
    if (name.size() <= kLongestName) {
      if (const FieldDescriptor* const near = Nearest(type, name); near != nullptr) {
        meant = prefix + near->name();
      } else {
        meant = PlaceOf(request_, name, "");
      }
    }
    Add(path, Shown(name), " is not a field of ", type.name(),
        meant.empty() ? "" : absl::StrCat("; '", meant, "' is"));
  }

  void Field(const FieldDescriptor& field, Json& value, const std::string& path) {
    if (value.IsNull()) {
      return;  // as if it were not there
    }
    if (field.is_map()) {
      Map(field, value, path);
    } else if (!field.is_repeated()) {
      Single(field, value, path);
    } else if (!value.IsArray()) {
      Add(path, "is not a list");
    } else {
      for (rapidjson::SizeType i = 0; i < value.Size() && faults_.size() < kMostFaults; ++i) {
        Single(field, value[i], absl::StrCat(path, "[", i, "]"));
      }
    }
  }

  void Map(const FieldDescriptor& field, Json& value, const std::string& path) {
    if (!value.IsObject()) {
      Add(path, "is not a JSON object");
      return;
    }
    const FieldDescriptor& element = *field.message_type()->map_value();
    for (auto& member : value.GetObject()) {
      Single(element, member.value, absl::StrCat(path, "['", TextOf(member.name), "']"));
    }
  }

  void Single(const FieldDescriptor& field, Json& value, const std::string& path) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field.message_type()->file()->package() == "google.protobuf") {
          return;  // has a special JSON form
        }
        return Message(*field.message_type(), value, path);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Enum(*field.enum_type(), value, path);
      case FieldDescriptor::CPPTYPE_STRING:
        if (!value.IsString()) {
          Add(path, "is not a string");
        }
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!value.IsBool()) {
          Add(path, "is not true or false");
        }
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Number(value, path, false);
      default:
        return Number(value, path, true);
    }
  }

  // Numbers may be written as strings.
  void Number(const Json& value, const std::string& path, bool is_whole) {
    double number = value.IsNumber() ? value.GetDouble() : 0;
    if (!value.IsNumber() && !(value.IsString() && absl::SimpleAtod(TextOf(value), &number))) {
      Add(path, value.IsString() ? Shown(TextOf(value)) + " " : "", "is not a number");
    } else if (is_whole && number != std::floor(number)) {
      Add(path, number, " is not a whole number");
    } else if (is_whole && std::abs(number) > 9.3e18) {
      Add(path, number, " is too large");
    }
  }

  void Enum(const google::protobuf::EnumDescriptor& type, Json& value, const std::string& path) {
    if (value.IsInt() || (value.IsString() && type.FindValueByName(TextOf(value)) != nullptr)) {
      return;
    }
    const google::protobuf::EnumValueDescriptor* const meant =
        value.IsString() ? bundle::FindEnumValue(&type, TextOf(value)) : nullptr;
    if (meant == nullptr) {
      Add(path, value.IsString() ? Shown(TextOf(value)) + " " : "", "is not one of ",
          bundle::EnumNames(&type));
      return;
    }
    value.SetString(meant->name().data(), static_cast<rapidjson::SizeType>(meant->name().size()),
                    document_.GetAllocator());
    has_changed_ = true;
  }

  const Descriptor& request_;
  rapidjson::Document& document_;
  status::Faults faults_;
  bool has_changed_ = false;
};

std::string Written(const rapidjson::Document& document) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  document.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace

absl::Status ReadRequest(const std::string& body, google::protobuf::Message& request) {
  using google::protobuf::util::JsonStringToMessage;
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body));
  auto status = JsonStringToMessage(body, &request);
  if (!status.ok()) {
    // Only now: bodies that protobuf reads are parsed once.
    rapidjson::Document document;
    constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag;
    document.Parse<kFlags>(body.data(), body.size());
    if (document.HasParseError()) {
      return Invalid("the body is not JSON: at byte ", document.GetErrorOffset(), ": ",
                     rapidjson::GetParseError_En(document.GetParseError()));
    }
    Examiner examiner(*request.GetDescriptor(), document);
    examiner.Examine();
    BW_RETURN_IF_ERROR(status::OkOrInvalid(examiner.faults()));
    if (examiner.has_changed()) {
      request.Clear();
      status = JsonStringToMessage(Written(document), &request);
    }
  }
  if (!status.ok()) {
    return Invalid(
        "the body is not a valid ", request.GetDescriptor()->full_name(),
        " in JSON form: ", absl::string_view(status.message().data(), status.message().size()));
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(body));
  return bundle::CheckBounds(request);
}

absl::StatusOr<google::protobuf::Struct> ReadObject(const std::string& body) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body, kMaxObjectScalars));
  google::protobuf::Struct members;
  if (!google::protobuf::util::JsonStringToMessage(body, &members).ok()) {
    return Invalid("the body is not a JSON object");
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(body));
  return members;
}

}  // namespace beamwright::http
