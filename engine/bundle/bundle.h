// Bundle: the content of a model's folder, read and checked (docs/bundle.md). What happens to files
// on disk later changes nothing that is served. In a DeferredScope (ops/tensor/tensor_memory.h)
// weights are read while the bundle is compiled, and what changes them before the scope has
// finished makes that fail.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/text_codec.h"
#include "ops/base/file.h"
#include "ops/graph/graph.h"

namespace beamwright::bundle {

// BundleFiles: the files of one bundle folder, kept inside it and checked against MANIFEST.sha256.
// The hashed bytes are the returned bytes: the content itself, or an open file that reports
// whether it has changed since.

inline constexpr char kManifestName[] = "MANIFEST.sha256";

// Most bytes of the files that are read whole, before they are parsed; a sparse file counts with
// its size. docs/bundle.md has the same numbers.
inline constexpr int64_t kMaxConfigBytes = int64_t{4} << 20;
inline constexpr int64_t kMaxVocabularyBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxRequestFileBytes = int64_t{64} << 20;  // golden.jsonl, warmup.jsonl
inline constexpr int64_t kMaxTokenListBytes = int64_t{256} << 20;   // lexical tables as well
inline constexpr int64_t kMaxNgramBytes = int64_t{2} << 30;
inline constexpr int64_t kMaxTransitionBytes = int64_t{64} << 20;  // of a CRF

// One thread at a time.
class BundleFiles {
 public:
  // Reads the manifest, if there is one. `roots`: folders of which resolved paths must lie in one;
  // the first is `folder` itself or contains it. Errors: NotFound, a malformed manifest line.
  static absl::StatusOr<BundleFiles> Open(const std::string& folder,
                                          const std::vector<std::string>& roots);

  // Content of a file by its path relative to the folder. InvalidArgument: an absolute path, one
  // with "..", one that links out of the root, or a file of more than `max_bytes`; NotFound and
  // the like; DataLoss: not what the manifest says.
  absl::StatusOr<std::string> Read(const std::string& path, int64_t max_bytes);
  // The same without reading it into memory: its users ask InputFile::CheckUnchanged. Inside an
  // ops::DeferredScope a large file is hashed meanwhile, and the scope has the DataLoss.
  absl::StatusOr<std::shared_ptr<const InputFile>> OpenFile(const std::string& path);

  // Checks what the manifest lists and Read has not read.
  absl::Status CheckRest();

 private:
  BundleFiles() = default;
  absl::Status ReadManifest();
  absl::StatusOr<std::string> Resolve(const std::string& path) const;
  // Of a file that the manifest lists.
  absl::Status CheckDigest(const std::string& path, const std::string& digest);

  std::string folder_;
  std::vector<std::string> resolved_roots_;
  std::map<std::string, std::string> unchecked_;  // path -> lower-case hex digest
  std::map<std::string, std::string> digests_;    // all that the manifest lists
};

// Lower-case hex.
std::string Sha256(absl::string_view content);

// The requests that a bundle brings (docs/bundle.md, 'Golden requests' and 'Warm-up').

// Content of the bundle's golden.jsonl; empty if missing. Errors as LoadBundle's.
absl::StatusOr<std::string> ReadGolden(const std::string& folder,
                                       absl::Span<const std::string> allow_links = {});
// The same of its warmup.jsonl.
absl::StatusOr<std::string> ReadWarmUp(const std::string& folder,
                                       absl::Span<const std::string> allow_links = {});

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

// model.textproto.
inline constexpr char kConfigName[] = "model.textproto";

// InvalidArgument: all syntax errors with line and column ("12:5: ..."), or, of a file that parses,
// all fields that are missing, out of range or at odds with each other.
absl::StatusOr<v1::ModelConfig> ParseModelConfig(const std::string& text);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_H_
