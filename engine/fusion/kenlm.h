// ReadKenlm: the binary files of KenLM, of format version 5. A trie (build_binary trie) is read
// into lists; a probing file, build_binary's default, is served from its hash tables
// (kenlm_probing.h). Words whose texts the file does not have are found by their hashes.
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

// Whether the words' texts are in the file, as they are unless it was built with -v.
// InvalidArgument: another kind or version of file, by its name, with what to give in its place.
absl::StatusOr<bool> KenlmHasWords(absl::string_view content);

struct KenlmTokens {
  std::function<int32_t(absl::string_view)> token_of;  // as for ReadArpa
  std::function<std::string(int32_t)> word_of;         // its inverse; for files without texts
};

// As ReadArpa. InvalidArgument: as KenlmHasWords; a file without texts of which fewer than half the
// words are tokens; sizes and places that do not fit the file; what NgramModel::Create refuses.
// Nothing is allocated before the header's counts are found to fit the file's size. A probing file
// is kept, with 8 bytes for each bucket that a search has come to; MostOfTokens is then a bound
// that is wider than a trie's.
absl::StatusOr<std::shared_ptr<const NgramModel>> ReadKenlm(std::string content,
                                                            const NgramVocabulary& vocabulary,
                                                            const KenlmTokens& tokens);

// As ReadArpaWords; of a file with texts.
absl::StatusOr<std::vector<std::string>> ReadKenlmWords(absl::string_view content);

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_KENLM_H_
