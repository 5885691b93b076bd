// KenLM's probing files, build_binary's default: hash tables whose keys are hashes of n-grams. The
// n-grams cannot be listed, since a hash does not say its words, so the file's tables are kept as
// they are and every score is a few lookups, as in KenLM.
//
// Private to kenlm.cc.
#ifndef BEAMWRIGHT_ENGINE_FUSION_KENLM_PROBING_H_
#define BEAMWRIGHT_ENGINE_FUSION_KENLM_PROBING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/fusion/kenlm_format.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

// Entries that begin with a key of 64 bits, 0 in an empty bucket. A key is in the first bucket from
// key % num_buckets on that is not another key's.
struct ProbingTable {
  size_t place = 0;  // in the file
  uint64_t num_buckets = 0;
  size_t entry_bytes = 0;

  static constexpr uint64_t kNone = ~uint64_t{0};
  size_t PlaceOf(uint64_t bucket) const {
    return place + static_cast<size_t>(bucket) * entry_bytes;
  }
  // The key's bucket, or kNone.
  uint64_t Find(absl::string_view content, uint64_t key) const;
};

struct ProbingLayout {
  ProbingTable words;                // by the hash of a word: its number
  uint64_t num_words = 0;            // with <unk>, which is number 0 and has no entry
  size_t unigrams = 0;               // place of a probability and a back-off for each word
  std::vector<ProbingTable> tables;  // of orders 2 and above
  size_t texts = 0;

  // 0, <unk>, where the file does not have the word.
  uint32_t WordOf(absl::string_view content, uint64_t hash) const;
};

// InvalidArgument: sizes and places that do not fit the file.
absl::StatusOr<ProbingLayout> FindProbingLayout(absl::string_view content,
                                                const KenlmHeader& header);

// content: the file, which the model keeps. token_of_word: -1 of a word that is no token.
// InvalidArgument: numbers that are not finite; a full table; more than 2^31 buckets.
absl::StatusOr<std::shared_ptr<const NgramModel>> ServeProbing(
    std::string content, ProbingLayout layout, const NgramVocabulary& vocabulary,
    absl::Span<const int32_t> token_of_word);

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_KENLM_PROBING_H_
