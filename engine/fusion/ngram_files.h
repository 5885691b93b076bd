// Files of n-gram models: ARPA's text, and KenLM's binary files, tries and probing files.
#ifndef BEAMWRIGHT_ENGINE_FUSION_NGRAM_FILES_H_
#define BEAMWRIGHT_ENGINE_FUSION_NGRAM_FILES_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/fusion/ngram_model.h"

namespace beamwright::fusion {

// ReadArpa: n-gram models as SRILM, KenLM and others write them: a header "\data\" with a line
// "ngram N=COUNT" for each order; for each order a section "\N-grams:" of lines with the decimal
// logarithm of a probability, N words and perhaps a back-off weight; "\end\" at the end.

// content: of the file. token_of: the token that a word is, -1 if none; not asked for <s>, </s> and
// <unk> (also <UNK>). N-grams with words that are not tokens can never occur and are left out.
//
// InvalidArgument naming the line: what is no ARPA file, counts that do not fit what follows or
// cannot, logarithms that are not finite numbers or above 0 (probabilities), a back-off weight of
// the highest order; no unigram of any token; and what NgramModel::Create refuses. Memory is in
// proportion to the content, not to what its header promises.
absl::StatusOr<std::shared_ptr<const NgramModel>> ReadArpa(
    absl::string_view content, const NgramVocabulary& vocabulary,
    const std::function<int32_t(absl::string_view)>& token_of);

// The words of the file's unigrams in their order, without <s>, </s> and <unk>. InvalidArgument: as
// ReadArpa of the header and the unigrams' form.
absl::StatusOr<std::vector<std::string>> ReadArpaWords(absl::string_view content);

// The text of a file that gzip has packed. InvalidArgument: it is cut short or damaged, or is more
// than 200 times as large as its packed form, which no language model is.
absl::StatusOr<std::string> UnpackGzip(absl::string_view packed);
bool IsGzip(absl::string_view content);

// ReadKenlm: the binary files of KenLM, of format version 5. A trie (build_binary trie) is read
// into lists; a probing file, build_binary's default, is served from its hash tables.
// Words whose texts the file does not have are found by their hashes.

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

// KenLM's binary files (format version 5): what all of them share, and probing files,
// build_binary's default, which are served from their hash tables.

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

#endif  // BEAMWRIGHT_ENGINE_FUSION_NGRAM_FILES_H_
