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
#include "server/http/request_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/bounds.h"
#include "engine/bundle/proto_text.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/names.h"
#include "ops/base/rapidjson.h"
#include "ops/base/status.h"

namespace beamwright::http {
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
  constexpr int64_t kMostScalars = int64_t{1} << 17;
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body, kMostScalars));
  google::protobuf::Struct members;
  if (!google::protobuf::util::JsonStringToMessage(body, &members).ok()) {
    return Invalid("the body is not a JSON object");
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(body));
  return members;
}

}  // namespace beamwright::http
