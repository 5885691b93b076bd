#include "server/http/paths.h"

#include <utility>

#include "absl/strings/match.h"

namespace beamwright::http {

ModelPath SplitModelPath(const std::vector<std::string>& pieces) {
  ModelPath path;
  path.model = pieces[2];
  size_t next = 3;
  if (pieces.size() > 4 && pieces[3] == "versions") {
    path.version = pieces[4];
    next = 5;
  }
  path.rest.assign(pieces.begin() + static_cast<std::ptrdiff_t>(next), pieces.end());
  return path;
}

serving::Method MethodOf(const std::string& path) {
  constexpr std::pair<const char*, serving::Method> kVerbs[] = {
      {":decode", serving::Method::kHttpDecode},
      {":streamDecode", serving::Method::kHttpStreamDecode},
      {":score", serving::Method::kHttpScore},
      {":align", serving::Method::kHttpAlign}};
  if (absl::StartsWith(path, "/v2/models/") && absl::EndsWith(path, "/infer")) {
    return serving::Method::kHttpInfer;
  }
  if (path == kTranscriptions) {
    return serving::Method::kHttpTranscribe;
  }
  if (path == kCompletions) {
    return serving::Method::kHttpDecode;
  }
  if (path == "/translate" || path == "/translate_file" || path == "/v2/translate") {
    return serving::Method::kHttpTranslate;
  }
  for (const auto& [verb, method] : kVerbs) {
    if (absl::StartsWith(path, "/v1/models/") && absl::EndsWith(path, verb)) {
      return method;
    }
  }
  return serving::Method::kHttpOther;
}

}  // namespace beamwright::http
