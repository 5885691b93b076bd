// Bodies of LibreTranslate's API, in three encodings, and the answers.
//
// 1. ParseMembers turns a body into one Struct: JSON, a URL-encoded form (ParseUrlForm), or a form
//    with files (ParseFileForm). Several fields of one name become a list. Texts must be UTF-8;
//    only an office file may be binary.
// 2. ReadTranslateBody and ReadFileBody read the members (q, source, target, format, glossary,
//    alternatives, file) and collect all faults, so that a caller sees every wrong member at once.
// 3. InMembers renames the fields of errors from those of TranslateRequest to the members of the
//    body: texts[1] is q[1].
// 4. WriteTranslateBody, WriteFileBody, WriteDetected and WriteLanguages write the answers. A list
//    of texts gets lists, a single text gets none: clients rely on that.
#include "server/http/translate_json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "server/http/message_json.h"
#include "server/http/replies.h"
#include "server/http/request_parts.h"
#include "server/translate/sentences.h"

namespace beamwright::http {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr char kFileMember[] = "file";

// Adds a field of a form. Several fields of one name become a list.
void AddField(const std::string& name, std::string value, Struct& members) {
  Value& member = (*members.mutable_fields())[name];
  if (member.kind_case() == Value::KIND_NOT_SET) {
    member.set_string_value(std::move(value));
    return;
  }
  if (member.has_string_value()) {
    std::string first = std::move(*member.mutable_string_value());
    member.mutable_list_value()->add_values()->set_string_value(std::move(first));
  }
  member.mutable_list_value()->add_values()->set_string_value(std::move(value));
}

absl::StatusOr<Struct> ParseUrlForm(const std::string& body) {
  // Counted before they are listed, which takes ten times the body's memory.
  if (std::count(body.begin(), body.end(), '&') >= kMaxFormFields) {
    return Invalid("the form has more than ", kMaxFormFields, " fields");
  }
  const std::vector<absl::string_view> fields = absl::StrSplit(body, '&', absl::SkipEmpty());
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
    AddField(name, std::move(value), members);
  }
  return members;
}

// Whether the file is binary: all other fields are text.
bool IsOfficeFile(absl::string_view filename) {
  return absl::EndsWithIgnoreCase(filename, ".docx") || absl::EndsWithIgnoreCase(filename, ".odt");
}

absl::StatusOr<Struct> ParseFileForm(absl::string_view content_type, const std::string& body) {
  BW_ASSIGN_OR_RETURN(const std::vector<FormPart> parts, ParseForm(content_type, body));
  Struct members;
  for (const FormPart& part : parts) {
    const bool may_be_binary = part.name == kFileMember && IsOfficeFile(part.filename);
    if (!CheckUtf8(part.name).ok() || !CheckUtf8(part.filename).ok() ||
        (!may_be_binary && !CheckUtf8(part.content).ok())) {
      return status::InvalidField(Printable(part.name), "is not UTF-8");
    }
    AddField(part.name, std::string(part.content), members);
    if (!part.filename.empty()) {
      (*members.mutable_fields())["filename"].set_string_value(part.filename);
    }
  }
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

// {"term": "its translation"}
void ReadGlossary(const Value* value, v1::TranslateRequest& request, status::Faults& faults) {
  if (value == nullptr) {
    return;
  }
  if (!value->has_struct_value()) {
    faults.Add("glossary", "is not an object of terms and their translations");
    return;
  }
  for (const auto& [term, translation] : value->struct_value().fields()) {
    if (!translation.has_string_value()) {
      faults.Add("glossary", "has a translation that is not a string");
      return;
    }
    v1::GlossaryTerm& added = *request.add_glossary();
    added.set_source(term);
    added.set_target(translation.string_value());
  }
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

// Without parameters.
std::string TypeOf(absl::string_view content_type) {
  return absl::AsciiStrToLower(
      absl::StripAsciiWhitespace(content_type.substr(0, content_type.find(';'))));
}

}  // namespace

MembersForm FormOf(absl::string_view content_type, char first) {
  const std::string type = TypeOf(content_type);
  if (type == "application/json" || (type.empty() && first == '{')) {
    return MembersForm::kJson;
  }
  return type == "application/x-www-form-urlencoded" || type.empty() ? MembersForm::kUrl
         : type == "multipart/form-data"                             ? MembersForm::kFiles
                                                                     : MembersForm::kOther;
}

absl::StatusOr<Struct> ParseMembers(absl::string_view content_type, const std::string& body) {
  if (body.empty()) {
    return Struct();
  }
  switch (FormOf(content_type, body[0])) {
    case MembersForm::kJson:
      return ReadObject(body);
    case MembersForm::kUrl:
      return ParseUrlForm(body);
    case MembersForm::kFiles:
      return ParseFileForm(content_type, body);
    case MembersForm::kOther:
      break;
  }
  return Invalid("the body is of type '", Printable(TypeOf(content_type)),
                 "'; send application/json, application/x-www-form-urlencoded or "
                 "multipart/form-data");
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
  if (const Value* format = FindMember(members, "format"); format != nullptr) {
    const std::string& name = format->string_value();
    if (!format->has_string_value() || (!name.empty() && name != "text" && name != "html")) {
      faults.Add("format", "is neither text nor html");
    }
    request.set_format(name == "html" ? v1::TEXT_FORMAT_HTML : v1::TEXT_FORMAT_PLAIN);
  }
  ReadGlossary(FindMember(members, "glossary"), request, faults);
  ReadAlternatives(FindMember(members, "alternatives"), request, faults);
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return body;
}

absl::StatusOr<TranslateBody> ReadFileBody(Struct members) {
  constexpr std::pair<const char*, v1::TextFormat> kFormats[] = {
      {".txt", v1::TEXT_FORMAT_PLAIN}, {".html", v1::TEXT_FORMAT_HTML},
      {".htm", v1::TEXT_FORMAT_HTML},  {".xml", v1::TEXT_FORMAT_XML},
      {".srt", v1::TEXT_FORMAT_SRT},   {".vtt", v1::TEXT_FORMAT_VTT},
      {".po", v1::TEXT_FORMAT_PO},     {".docx", v1::TEXT_FORMAT_DOCX},
      {".odt", v1::TEXT_FORMAT_ODT}};
  TranslateBody body;
  status::Faults faults;
  v1::TranslateRequest& request = body.request;
  const std::string name = absl::AsciiStrToLower(TextMember(members, "filename"));
  for (const auto& [ending, format] : kFormats) {
    if (absl::EndsWith(name, ending)) {
      request.set_format(format);
    }
  }
  Value* const file = FindMember(members, kFileMember);
  if (file == nullptr || !file->has_string_value()) {
    faults.Add("file", "is not set; send one as multipart/form-data");
  } else if (request.format() == v1::TEXT_FORMAT_UNSPECIFIED) {
    faults.Add(
        "file",
        "has a name that ends in none of .txt, .html, .xml, .srt, .vtt, .po, .docx and .odt");
  } else if (IsOfficeFile(name)) {
    request.set_document(std::move(*file->mutable_string_value()));
  } else if (!CheckUtf8(file->string_value()).ok()) {  // another part has the name of a text
    faults.Add("file", "is not UTF-8");
  } else {
    *request.add_texts() = std::move(*file->mutable_string_value());
  }
  request.set_source_language(ReadLanguage(FindMember(members, "source"), "source", faults));
  request.set_target_language(ReadLanguage(FindMember(members, "target"), "target", faults));
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return body;
}

void ReadStrings(const Struct& members, const std::string& name,
                 google::protobuf::RepeatedPtrField<std::string>& to) {
  const auto it = members.fields().find(name);
  if (it == members.fields().end()) {
    return;
  }
  if (it->second.has_string_value()) {
    *to.Add() = it->second.string_value();
  }
  for (const Value& value : it->second.list_value().values()) {
    *to.Add() = value.string_value();
  }
}

absl::Status InMembers(const absl::Status& status, const std::string& texts, bool is_list) {
  return status::WithFields(status, [&](absl::string_view field) -> std::string {
    if (field == "document") {
      return texts;
    }
    if (absl::StartsWith(field, "texts")) {
      return is_list ? absl::StrCat(texts, field.substr(5)) : texts;
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
  if (response.confidence() > 0) {
    json.Key("detectedLanguage");
    for (int i = asked.is_list ? 0 : response.translations_size() - 1;
         i < response.translations_size(); ++i) {
      if (asked.is_list && i == 0) {
        json.BeginArray();
      }
      json.BeginObject();
      json.Key("confidence").Double(response.translations(i).confidence());
      json.Key("language").String(response.translations(i).source_language());
      json.EndObject();
    }
    if (asked.is_list) {
      json.EndArray();
    }
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

std::string WriteFileBody(const TranslateBody& asked, const v1::TranslateResponse& response) {
  const v1::TextFormat format = asked.request.format();
  const char* const type =
      format == v1::TEXT_FORMAT_DOCX
          ? "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
      : format == v1::TEXT_FORMAT_ODT  ? "application/vnd.oasis.opendocument.text"
      : format == v1::TEXT_FORMAT_HTML ? "text/html;charset=utf-8"
                                       : "text/plain;charset=utf-8";
  const std::string& content =
      response.translations().empty() ? response.document() : response.translations(0).text();
  JsonWriter json;
  json.BeginObject();
  json.Key("translatedFileUrl")
      .String(absl::StrCat("data:", type, ";base64,", absl::Base64Escape(content)));
  json.EndObject();
  return json.text() + "\n";
}

std::string WriteDetected(const std::vector<translate::DetectedLanguage>& languages) {
  JsonWriter json;
  json.BeginArray();
  for (const translate::DetectedLanguage& language : languages) {
    json.BeginObject();
    json.Key("confidence").Double(language.confidence);
    json.Key("language").String(language.language);
    json.EndObject();
  }
  json.EndArray();
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

HttpReply LibreErrorReply(const absl::Status& status) {
  HttpReply reply = V2ErrorReply(status);
  if (reply.status == 401) {
    reply.status = 403;
    reply.headers.clear();
  }
  return reply;
}

}  // namespace beamwright::http
