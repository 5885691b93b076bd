// Bundle: the content of a model's folder, read and checked (docs/bundle.md). What happens to files
// on disk later changes nothing that is served. In a DeferredScope (ops/tensor/tensor_memory.h)
// weights are read while the bundle is compiled, and what changes them before the scope has
// finished makes that fail.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/text_codec.h"
#include "ops/graph/graph.h"

namespace beamwright::bundle {

// BundleHead: what a bundle says of itself, for those who have no need of its graphs yet.

struct BundleHead {
  std::string name;
  std::string version;  // "1" where the folder's name is not a version number
  v1::ModelConfig config;
};

// Reads model.textproto alone. Errors as LoadBundle's.
absl::StatusOr<BundleHead> ReadBundleHead(const std::string& folder,
                                          absl::Span<const std::string> allow_links = {});

struct Bundle {
  std::string name;
  std::string version;  // "1" where the folder's name is not a version number
  v1::ModelConfig config;
  std::optional<ops::Graph> encoder;
  ops::Graph decoder;                   // empty if missing
  std::optional<ops::Graph> predictor;  // of a transducer
  std::optional<ops::Graph> joiner;     // of a transducer, unless the predictor's graph is both
  std::shared_ptr<const TextCodec> source;
  std::shared_ptr<const TextCodec> target;
  std::map<std::string, std::string> token_lists;  // contents by name
  struct Member {
    std::optional<ops::Graph> encoder;
    ops::Graph decoder;
  };
  std::vector<Member> members;                        // of config.ensemble
  std::map<std::string, std::string> ngrams;          // contents by the scorer's name
  std::map<std::string, ops::Graph> language_models;  // by the scorer's name
  std::string lexical_table;                          // content
  std::string transitions;                            // content of config.tags.transitions
  std::string cmvn;                                   // content of sound.cmvn
  std::optional<ops::Graph> activity;                 // sound.activity
  std::string golden;                                 // golden.jsonl; empty if missing
};

// How targets of such a model are searched for.
inline v1::Search SearchOf(const v1::ModelConfig& config) {
  return config.has_ctc()          ? v1::SEARCH_CTC
         : config.has_transducer() ? v1::SEARCH_TRANSDUCER
         : config.has_tags()       ? v1::SEARCH_TAGS
                                   : v1::SEARCH_TOKENS;
}

// Reads <folder>/model.textproto and the files that it names; paths that leave the folder are
// refused (symbolic links inside a mount are followed as kubelet makes them: the resolved path must
// stay below the resolved parent of the version folder, or below one of `allow_links`). If
// <folder>/MANIFEST.sha256 exists every file it lists must match (DataLoss naming the file). Errors
// name the file, and the field, line or layer.
absl::StatusOr<Bundle> LoadBundle(const std::string& folder,
                                  absl::Span<const std::string> allow_links = {});

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_
