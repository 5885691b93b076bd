// DeepL's form of requests and answers of translation, read from and written as Beamwright's
// messages: ReadDeepLBody, WriteDeepLBody, WriteDeepLLanguages, DeepLErrorReply.
//
// Members that would change the result and are not supported (glossary_id, formality other than
// default and prefer_*) are faults; others that are unknown are ignored. InDeepLMembers renames the
// fields in error messages to the members that the caller wrote.
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/status/fault.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/http/translate_json.h"
#include "server/translate/directions.h"
#include "server/translate/sentences.h"

namespace beamwright::http {
namespace {

using google::protobuf::RepeatedPtrField;
using google::protobuf::Struct;

// Names of elements: a list, or in a form a text with commas.
void ReadTags(const Struct& members, const char* name, RepeatedPtrField<std::string>& to) {
  RepeatedPtrField<std::string> texts;
  ReadStrings(members, name, texts);
  for (const std::string& text : texts) {
    for (const absl::string_view tag : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      *to.Add() = std::string(absl::StripAsciiWhitespace(tag));
    }
  }
}

}  // namespace

absl::StatusOr<v1::TranslateRequest> ReadDeepLBody(const Struct& members) {
  v1::TranslateRequest request;
  status::Faults faults;
  ReadStrings(members, "text", *request.mutable_texts());
  if (request.texts().empty()) {
    faults.Add("text", "is not set");
  }
  const std::string source = TextMember(members, "source_lang");
  request.set_source_language(source.empty() ? translate::kAuto : source);
  request.set_target_language(TextMember(members, "target_lang"));
  if (request.target_language().empty()) {
    faults.Add("target_lang", "is not set; GET /v2/languages lists those that there are");
  }
  const std::string handling = TextMember(members, "tag_handling");
  if (!handling.empty() && handling != "xml" && handling != "html") {
    faults.Add("tag_handling", "is neither xml nor html");
  }
  request.set_format(handling == "html"  ? v1::TEXT_FORMAT_HTML
                     : handling == "xml" ? v1::TEXT_FORMAT_XML
                                         : v1::TEXT_FORMAT_PLAIN);
  ReadTags(members, "ignore_tags", *request.mutable_ignored_tags());
  ReadTags(members, "splitting_tags", *request.mutable_splitting_tags());
  const std::string formality = TextMember(members, "formality");
  if (!formality.empty() && formality != "default" && !absl::StartsWith(formality, "prefer_")) {
    faults.Add("formality", "is not supported; default and prefer_* are");
  }
  if (!TextMember(members, "glossary_id").empty()) {
    faults.Add("glossary_id", "is not supported: there are no stored glossaries");
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  return request;
}

absl::Status InDeepLMembers(const absl::Status& status) {
  return status::WithFields(status, [](absl::string_view field) -> std::string {
    return absl::StartsWith(field, "texts") ? absl::StrCat("text", field.substr(5))
           : field == "source_language"     ? "source_lang"
           : field == "target_language"     ? "target_lang"
           : field == "ignored_tags"        ? "ignore_tags"
                                            : std::string(field);
  });
}

std::string WriteDeepLBody(const std::vector<int64_t>& num_characters,
                           const v1::TranslateResponse& response) {
  JsonWriter json;
  json.BeginObject().Key("translations").BeginArray();
  for (int i = 0; i < response.translations_size(); ++i) {
    json.BeginObject();
    const v1::Translation& translation = response.translations(i);
    const std::string& language = translation.source_language();
    json.Key("detected_source_language")
        .String(absl::AsciiStrToUpper(language.empty() ? response.source_language() : language));
    json.Key("text").String(translation.text());
    json.Key("billed_characters").Int(num_characters[static_cast<size_t>(i)]);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.text() + "\n";
}

std::string WriteDeepLLanguages(const std::vector<translate::Language>& languages,
                                const std::string& type) {
  std::set<std::string> targets;
  std::set<std::string> sources;
  for (const translate::Language& language : languages) {
    for (const std::string& target : language.targets) {
      if (target != language.code) {
        sources.insert(language.code);
        targets.insert(target);
      }
    }
  }
  JsonWriter json;
  json.BeginArray();
  for (const translate::Language& language : languages) {
    if ((type != "target" && sources.count(language.code) == 0) ||
        (type == "target" && targets.count(language.code) == 0)) {
      continue;
    }
    json.BeginObject();
    json.Key("language").String(absl::AsciiStrToUpper(language.code));
    json.Key("name").String(translate::LanguageName(language.code));
    json.Key("supports_formality").Bool(false);
    json.EndObject();
  }
  json.EndArray();
  return json.text() + "\n";
}

HttpReply DeepLErrorReply(const absl::Status& status) {
  HttpReply reply = LibreErrorReply(status);
  JsonWriter json;
  json.BeginObject().Key("message").String(std::string(status.message())).EndObject();
  reply.body = json.text() + "\n";
  return reply;
}

}  // namespace beamwright::http
