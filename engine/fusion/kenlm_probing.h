// KenLM's binary files (format version 5): what all of them share, and probing files,
// build_binary's default, which are served from their hash tables. Private to kenlm.cc.
#ifndef BEAMWRIGHT_ENGINE_FUSION_KENLM_PROBING_H_
#define BEAMWRIGHT_ENGINE_FUSION_KENLM_PROBING_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

// What all binary files of KenLM share (format version 5): a header with a count of n-grams for
// each order, the hash of a word's text, and the words' texts at the end of the file.

struct KenlmHeader {
  enum class Kind : uint32_t { kProbing = 0, kTrie = 2 };
  Kind kind = Kind::kTrie;
  float multiplier = 1;          // of hash tables: buckets an entry
  bool has_words = false;        // the texts are at the file's end
  std::vector<uint64_t> counts;  // by order; that of unigrams is above 0
  size_t size = 0;               // of the header; the hashes of the words follow
};

// InvalidArgument: another kind or version, by its name; an order below 2 or above
// NgramModel::kMaxOrder; counts that the file has no room for.
absl::StatusOr<KenlmHeader> ReadKenlmHeader(absl::string_view content);

// The texts that begin at `place`, by the word's number; number 0 is <unk>. InvalidArgument: there
// are fewer than `count`, or something else is there.
absl::StatusOr<std::vector<absl::string_view>> ReadKenlmTexts(absl::string_view content,
                                                              size_t place, uint64_t count);

// InvalidArgument: the file has fewer bytes than `size`.
absl::Status ExpectKenlmSize(absl::string_view content, size_t size);

// MurmurHash64A of a word's text, with seed 0.
uint64_t KenlmWordHash(absl::string_view word);

// The value in the bytes of a file from `place` on, aligned or not.
template <typename T>
T KenlmValueAt(absl::string_view content, size_t place) {
  T value;
  std::memcpy(&value, content.data() + place, sizeof(T));
  return value;
}

// KenLM's probing files, build_binary's default: hash tables whose keys are hashes of n-grams. The
// n-grams cannot be listed, since a hash does not say its words, so the file's tables are kept as
// they are and every score is a few lookups, as in KenLM.

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
