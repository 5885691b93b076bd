// Requests and answers of DeepL's API, version 2: JSON objects, or forms.
#ifndef BEAMWRIGHT_SERVER_HTTP_DEEPL_JSON_H_
#define BEAMWRIGHT_SERVER_HTTP_DEEPL_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamwright/v1/translate.pb.h"
#include "server/http/listener.h"
#include "server/translate/directions.h"

namespace beamwright::http {

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

#endif  // BEAMWRIGHT_SERVER_HTTP_DEEPL_JSON_H_
