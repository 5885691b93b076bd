#include "server/http/json.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"
#include "ops/base/utf8.h"

namespace beamwright::http {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kReplacement[] = "\xEF\xBF\xBD";

template <typename T>
void AppendFloat(T value, std::string& json) {
  if (!std::isfinite(value)) {
    json += "null";
    return;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  json.append(text, end);
}

// Element `index` of a field, or (index -1) the field itself.
#define BW_GET(type)                                 \
  (index < 0 ? reflection.Get##type(message, &field) \
             : reflection.GetRepeated##type(message, &field, index))

void AppendValue(const Message& message, const FieldDescriptor& field, int index,
                 std::string& json) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      json += BW_GET(Bool) ? "true" : "false";
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      absl::StrAppend(&json, BW_GET(Int32));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      absl::StrAppend(&json, BW_GET(Int64));
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      absl::StrAppend(&json, BW_GET(UInt32));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      absl::StrAppend(&json, BW_GET(UInt64));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      AppendNumber(BW_GET(Float), json);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      AppendNumber(BW_GET(Double), json);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      AppendQuoted(BW_GET(Enum)->name(), json);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      AppendQuoted(BW_GET(String), json);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      AppendMessage(BW_GET(Message), json);
      break;
  }
}
#undef BW_GET

// "key": value pairs of a map field.
void AppendMap(const Message& message, const FieldDescriptor& field, std::string& json) {
  const Reflection& reflection = *message.GetReflection();
  json += '{';
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    json += i > 0 ? "," : "";
    AppendValue(entry, *entry.GetDescriptor()->map_key(), -1, json);
    json += ':';
    AppendValue(entry, *entry.GetDescriptor()->map_value(), -1, json);
  }
  json += '}';
}

void AppendField(const Message& message, const FieldDescriptor& field, std::string& json) {
  AppendQuoted(field.name(), json);
  json += ':';
  if (field.is_map()) {
    AppendMap(message, field, json);
    return;
  }
  if (!field.is_repeated()) {
    AppendValue(message, field, -1, json);
    return;
  }
  json += '[';
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    json += i > 0 ? "," : "";
    AppendValue(message, field, i, json);
  }
  json += ']';
}

}  // namespace

void AppendQuoted(absl::string_view text, std::string& json) {
  json += '"';
  for (size_t i = 0; i < text.size();) {
    const int length = Utf8Length(text.substr(i));
    const char c = text[i];
    if (length <= 0) {
      json += kReplacement;
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned>(c));
    } else {
      json.append(text.data() + i, static_cast<size_t>(length));
    }
    i += static_cast<size_t>(length);
  }
  json += '"';
}

void AppendNumber(double value, std::string& json) { AppendFloat(value, json); }
void AppendNumber(float value, std::string& json) { AppendFloat(value, json); }

void AppendMessage(const Message& message, std::string& json) {
  json += '{';
  bool first = true;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!field.is_repeated() && field.has_presence() &&
        !message.GetReflection()->HasField(message, &field)) {
      continue;
    }
    json += first ? "" : ",";
    first = false;
    AppendField(message, field, json);
  }
  json += '}';
}

}  // namespace beamwright::http
