// The normalisers of a tokenizer.json: what becomes of text before it is cut. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_NORMALISER_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_NORMALISER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/bundle/tokenizer_json.h"

namespace beamwright::bundle {

// Thread-safe.
class Normaliser {
 public:
  // normaliser: null: text stays as it is. InvalidArgument naming what is not read: others than
  // BertNormalizer, Lowercase, StripAccents, NFD before it, Replace, Prepend, Strip, Precompiled
  // (SentencePiece's charsmap) and NFC, as which text is taken.
  static absl::StatusOr<Normaliser> Read(const Json* normaliser);

  // text: UTF-8.
  std::string Apply(absl::string_view text) const;

 private:
  using Step = std::function<std::string(absl::string_view)>;

  static absl::StatusOr<std::vector<Step>> StepsOf(const Json& one, bool strips_next);

  std::vector<Step> steps_;
};

// What the package's pre-tokenizers hold for it.
bool IsWhiteSpace(char32_t c);
bool IsPunctuation(char32_t c);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_NORMALISER_H_
