// ReadKenlm: the binary files of KenLM that hold a trie (build_binary trie), of format version 5: a
// header, the words' hashes, the unigrams, an array of packed bits for each higher order, and the
// words' texts. A probing file, build_binary's default, has hashes in the place of its n-grams'
// words, so that nothing but KenLM's own search can use it.
#ifndef BEAMWRIGHT_ENGINE_FUSION_KENLM_H_
#define BEAMWRIGHT_ENGINE_FUSION_KENLM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

bool IsKenlm(absl::string_view content);

// As ReadArpa. InvalidArgument: another kind or version of file, by its name, with what to give in
// its place; no words at its end; sizes and places that do not fit the file; what
// NgramModel::Create refuses. Nothing is allocated before the header's counts are found to fit the
// file's size.
absl::StatusOr<std::shared_ptr<const NgramModel>> ReadKenlm(
    absl::string_view content, const NgramVocabulary& vocabulary,
    const std::function<int32_t(absl::string_view)>& token_of);

// As ReadArpaWords.
absl::StatusOr<std::vector<std::string>> ReadKenlmWords(absl::string_view content);

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_KENLM_H_
