// BundleFiles: the files of one bundle folder, kept inside it and checked against MANIFEST.sha256.
// The hashed bytes are the returned bytes: the content itself, or an open file that reports
// whether it has changed since.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_FILES_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/base/file.h"

namespace beamwright::bundle {

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

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BUNDLE_FILES_H_
