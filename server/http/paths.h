// What the paths of the HTTP API name.
#ifndef BEAMWRIGHT_SERVER_HTTP_PATHS_H_
#define BEAMWRIGHT_SERVER_HTTP_PATHS_H_

#include <string>
#include <vector>

#include "server/serving/caller.h"

namespace beamwright::http {

inline constexpr char kTranscriptions[] = "/v1/audio/transcriptions";
inline constexpr char kCompletions[] = "/v1/completions";

// models/NAME or models/NAME/versions/VERSION; what follows is left in `rest`.
struct ModelPath {
  std::string model;
  std::string version;
  std::vector<std::string> rest;
};

// Of the pieces between a path's slashes, at least three: "v1", "models", ...
ModelPath SplitModelPath(const std::vector<std::string>& pieces);

// The call that a path stands for: /v1/models/...:VERB, /v2/models/.../infer, transcriptions;
// completions are Decode calls;
// kHttpOther for others.
serving::Method MethodOf(const std::string& path);

}  // namespace beamwright::http

#endif  // BEAMWRIGHT_SERVER_HTTP_PATHS_H_
