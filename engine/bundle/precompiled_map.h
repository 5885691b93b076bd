// PrecompiledMap: SentencePiece's normalisation as its models and T5's and XLM-R's tokenizer.json
// have it: a double array (Darts) from texts to places in a list of replacements. Private to
// bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_PRECOMPILED_MAP_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_PRECOMPILED_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::bundle {

// Thread-safe after Parse.
class PrecompiledMap {
 public:
  // charsmap: in base64. InvalidArgument if it is not one.
  static absl::StatusOr<PrecompiledMap> Parse(absl::string_view charsmap);

  // As the package `tokenizers` does it: short characters with their marks first, then single ones.
  std::string Apply(absl::string_view text) const;

 private:
  // The replacement of the shortest beginning that has one; false: none has.
  bool Find(absl::string_view text, absl::string_view& replacement) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
};

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_PRECOMPILED_MAP_H_
