// Writes messages as JSON: ProtobufJson in the form of protobuf's JSON with the names of the .proto
// files, WriteMessage in the form of the Open Inference Protocol, in which 64-bit integers are
// numbers and not texts.
//
// Details of errors are typed messages (google.protobuf.Any), in which clients' libraries expect
// protobuf's usual names ("retryDelay"). protobuf has one option for a whole message, so that
// DetailNames copies the text and renames the members of objects with "@type".
#include "server/http/message_json.h"

#include <google/protobuf/util/json_util.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "ops/base/rapidjson.h"

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

}  // namespace beamwright::http
