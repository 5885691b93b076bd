#include "server/http/translate_json.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/strict_json.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/http/unescape.h"
#include "server/translate/sentences.h"

namespace beamwright::http {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr size_t kMaxFormFields = size_t{1} << 15;

absl::StatusOr<Struct> ParseUrlForm(const std::string& body) {
  const std::vector<absl::string_view> fields = absl::StrSplit(body, '&', absl::SkipEmpty());
  if (fields.size() > kMaxFormFields) {
    return Invalid("the form has ", fields.size(), " fields; at most ", kMaxFormFields,
                   " are allowed");
  }
  Struct members;
  for (const absl::string_view field : fields) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    std::string name;
    std::string value;
    if (!Unescape(absl::StrReplaceAll(parts.first, {{"+", " "}}), name) ||
        !Unescape(absl::StrReplaceAll(parts.second, {{"+", " "}}), value)) {
      return Invalid("the form has an escape that is not % and two digits, or a NUL");
    }
    if (!CheckUtf8(name).ok() || !CheckUtf8(value).ok()) {
      return status::InvalidField(Printable(name), "is not UTF-8");
    }
    Value& member = (*members.mutable_fields())[name];
    if (member.kind_case() == Value::KIND_NOT_SET) {
      member.set_string_value(std::move(value));
      continue;
    }
    if (member.has_string_value()) {
      std::string first = std::move(*member.mutable_string_value());
      member.mutable_list_value()->add_values()->set_string_value(std::move(first));
    }
    member.mutable_list_value()->add_values()->set_string_value(std::move(value));
  }
  return members;
}

absl::StatusOr<Struct> ParseJsonMembers(const std::string& body) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(body));
  Struct members;
  if (!google::protobuf::util::JsonStringToMessage(body, &members).ok()) {
    return Invalid("the body is not a JSON object");
  }
  BW_RETURN_IF_ERROR(bundle::CheckStrictJson(body));
  return members;
}

// Null if it is missing or null.
Value* FindMember(Struct& members, const char* name) {
  const auto it = members.mutable_fields()->find(name);
  return it == members.mutable_fields()->end() || it->second.has_null_value() ? nullptr
                                                                              : &it->second;
}

// The texts of the member q.
void ReadTexts(Value* q, TranslateBody& body, status::Faults& faults) {
  if (q == nullptr) {
    faults.Add("q", "is not set; it is the text to translate, or a list of texts");
    return;
  }
  body.is_list = q->has_list_value();
  if (q->has_string_value()) {
    *body.request.add_texts() = std::move(*q->mutable_string_value());
    return;
  }
  if (!body.is_list) {
    faults.Add("q", "is neither a string nor a list of strings");
    return;
  }
  for (Value& value : *q->mutable_list_value()->mutable_values()) {
    if (!value.has_string_value()) {
      faults.Add(absl::StrCat("q[", body.request.texts_size(), "]"), "is not a string");
      return;
    }
    *body.request.add_texts() = std::move(*value.mutable_string_value());
  }
}

std::string ReadLanguage(Value* value, const char* name, status::Faults& faults) {
  if (value == nullptr || !value->has_string_value() || value->string_value().empty()) {
    faults.Add(name, value == nullptr ? "is not set" : "is not the code of a language",
               "; GET /languages lists those that there are");
    return "";
  }
  return value->string_value();
}

void ReadAlternatives(const Value* value, v1::TranslateRequest& request, status::Faults& faults) {
  if (value == nullptr) {
    return;
  }
  double number = value->number_value();
  if (value->has_string_value() && !absl::SimpleAtod(value->string_value(), &number)) {
    number = -1;
  }
  // A form has numbers as text.
  const bool is_number = value->has_number_value() || value->has_string_value();
  if (!is_number || number < 0 || number > 1e6 || number != std::floor(number)) {
    faults.Add("alternatives", "is not a whole number of 0 or more");
    return;
  }
  request.set_alternatives(static_cast<int32_t>(number));
}

}  // namespace

absl::StatusOr<Struct> ParseMembers(absl::string_view content_type, const std::string& body) {
  const std::string type = absl::AsciiStrToLower(
      absl::StripAsciiWhitespace(content_type.substr(0, content_type.find(';'))));
  if (body.empty()) {
    return Struct();
  }
  if (type == "application/json" || (type.empty() && body[0] == '{')) {
    return ParseJsonMembers(body);
  }
  if (type == "application/x-www-form-urlencoded" || type.empty()) {
    return ParseUrlForm(body);
  }
  return Invalid("the body is of type '", Printable(type),
                 "'; send application/json or application/x-www-form-urlencoded");
}

std::string TextMember(const Struct& members, const std::string& name) {
  const auto it = members.fields().find(name);
  return it == members.fields().end() ? "" : it->second.string_value();
}

absl::StatusOr<TranslateBody> ReadTranslateBody(Struct members) {
  TranslateBody body;
  status::Faults faults;
  ReadTexts(FindMember(members, "q"), body, faults);
  v1::TranslateRequest& request = body.request;
  request.set_source_language(ReadLanguage(FindMember(members, "source"), "source", faults));
  request.set_target_language(ReadLanguage(FindMember(members, "target"), "target", faults));
  if (absl::EqualsIgnoreCase(request.source_language(), "auto")) {
    faults.Add("source", "is auto, but this server does not find out languages; name the language");
  }
  if (const Value* format = FindMember(members, "format"); format != nullptr) {
    if (!format->has_string_value() ||
        (!format->string_value().empty() && format->string_value() != "text")) {
      faults.Add("format", "only text is supported: markup would not stay whole");
    }
  }
  ReadAlternatives(FindMember(members, "alternatives"), request, faults);
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return body;
}

absl::Status InMembers(const absl::Status& status, bool is_list) {
  return status::WithFields(status, [is_list](absl::string_view field) -> std::string {
    if (absl::StartsWith(field, "texts")) {
      return is_list ? absl::StrCat("q", field.substr(5)) : "q";
    }
    return field == "source_language"   ? "source"
           : field == "target_language" ? "target"
                                        : std::string(field);
  });
}

std::string WriteTranslateBody(const TranslateBody& asked, const v1::TranslateResponse& response) {
  JsonWriter json;
  json.BeginObject().Key("translatedText");
  if (asked.is_list) {
    json.BeginArray();
  }
  for (const v1::Translation& translation : response.translations()) {
    json.String(translation.text());
  }
  if (asked.is_list) {
    json.EndArray();
  }
  if (asked.request.alternatives() > 0) {
    json.Key("alternatives");
    if (asked.is_list) {
      json.BeginArray();
    }
    for (const v1::Translation& translation : response.translations()) {
      json.BeginArray();
      for (const std::string& text : translation.alternatives()) {
        json.String(text);
      }
      json.EndArray();
    }
    if (asked.is_list) {
      json.EndArray();
    }
  }
  json.EndObject();
  return json.text() + "\n";
}

std::string WriteLanguages(const std::vector<translate::Language>& languages) {
  JsonWriter json;
  json.BeginArray();
  for (const translate::Language& language : languages) {
    json.BeginObject();
    json.Key("code").String(language.code);
    json.Key("name").String(translate::LanguageName(language.code));
    json.Key("targets").BeginArray();
    for (const std::string& target : language.targets) {
      json.String(target);
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
  return json.text() + "\n";
}

}  // namespace beamwright::http
