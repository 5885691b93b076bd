// Requests and answers of LibreTranslate's API: JSON objects, or forms of a browser.
#ifndef BEAMWRIGHT_SERVER_HTTP_TRANSLATE_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_TRANSLATE_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/translate.pb.h"
#include "server/http/listener.h"
#include "server/translate/directions.h"

namespace beamwright::http {

inline constexpr int64_t kMaxFormFields = int64_t{1} << 15;  // of a URL-encoded form

enum class MembersForm { kJson, kUrl, kFiles, kOther };
// How a body of this type has its members. first: its first byte.
MembersForm FormOf(absl::string_view content_type, char first);

// The members of a body: a JSON object, or a form (application/x-www-form-urlencoded or
// multipart/form-data), whose fields are strings, and several of one name a list. A file's name is
// the member `filename`; an office file is the one string that need not be UTF-8. An empty body has
// no members. InvalidArgument.
absl::StatusOr<google::protobuf::Struct> ParseMembers(absl::string_view content_type,
                                                      const std::string& body);

// A member that is a string; empty if it is missing, null or of another kind.
std::string TextMember(const google::protobuf::Struct& members, const std::string& name);

struct TranslateBody {
  v1::TranslateRequest request;
  bool is_list = false;  // the member q is a list, and so is the answer
};

// The members of a request to /translate. InvalidArgument naming every member that is missing or
// wrong.
absl::StatusOr<TranslateBody> ReadTranslateBody(google::protobuf::Struct members);

// The members of a request to /translate_file: file, source, target. The format is that of the
// file's name: .txt, .html, .xml, .srt, .vtt, .po, .docx, .odt. InvalidArgument.
absl::StatusOr<TranslateBody> ReadFileBody(google::protobuf::Struct members);

// Each is among the members as one string, several strings of a list, or not at all.
void ReadStrings(const google::protobuf::Struct& members, const std::string& name,
                 google::protobuf::RepeatedPtrField<std::string>& to);

// An error of the call in the terms of the members: `texts` (q or file) for texts, source, target.
absl::Status InMembers(const absl::Status& status, const std::string& texts, bool is_list);

// {"translatedText": ..., "alternatives": ...}; the latter where some were asked for.
std::string WriteTranslateBody(const TranslateBody& asked, const v1::TranslateResponse& response);

// {"translatedFileUrl": "data:..."}: the file itself, so that no server has to keep it.
std::string WriteFileBody(const TranslateBody& asked, const v1::TranslateResponse& response);

// [{"confidence": 90, "language": "en"}].
std::string WriteDetected(const std::vector<translate::DetectedLanguage>& languages);

// [{"code": "en", "name": "English", "targets": ["en", "fr"]}].
std::string WriteLanguages(const std::vector<translate::Language>& languages);

// {"error": "..."} with LibreTranslate's HTTP statuses: 403 for a missing or wrong key.
HttpReply LibreErrorReply(const absl::Status& status);

// Requests and answers of DeepL's API, version 2: JSON objects, or forms.

// The members of a request to /v2/translate. Those that change nothing here (context, formality
// `default` and `prefer_*`, split_sentences, model_type and others) are ignored. InvalidArgument
// naming every member that is missing, wrong, or asks for what this server has not: glossary_id,
// another formality.
absl::StatusOr<v1::TranslateRequest> ReadDeepLBody(const google::protobuf::Struct& members);

// An error of the call in the terms of the members: text, source_lang, target_lang.
absl::Status InDeepLMembers(const absl::Status& status);

// {"translations": [{"detected_source_language": "EN", "text": ..., "billed_characters": 5}]}.
// num_characters: of each text of the request.
std::string WriteDeepLBody(const std::vector<int64_t>& num_characters,
                           const v1::TranslateResponse& response);

// [{"language": "EN", "name": "English"}]: those with a model from them or, with the type "target",
// to them.
std::string WriteDeepLLanguages(const std::vector<translate::Language>& languages,
                                const std::string& type);

// {"message": "..."} with DeepL's HTTP statuses: 403 for a missing or wrong key.
HttpReply DeepLErrorReply(const absl::Status& status);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_TRANSLATE_JSON_H_
