// What all binary files of KenLM share (format version 5): a header with a count of n-grams for
// each order, the hash of a word's text, and the words' texts at the end of the file.
#ifndef BEAMWRIGHT_ENGINE_FUSION_KENLM_FORMAT_H_
#define BEAMWRIGHT_ENGINE_FUSION_KENLM_FORMAT_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::fusion {

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

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_KENLM_FORMAT_H_
