// Reads binary files of KenLM, a library for n-gram models: of type trie here, of type probing in
// kenlm_probing.cc.
//
// 1. Open reads the header and finds the parts of the file. Every size is compared with the file's
//    before anything is read.
// 2. TokensOfWords finds the token of each word of the model: by the words' texts if the file has
//    them, else by the hash of each token.
// 3. TrieReader::ReadNgrams walks the trie once and collects the n-grams, from which NgramModel
//    builds its tables. A probing file is served as it is (ServeProbing).
//
// The trie is of reversed n-grams: below a word are the words before it. A node of order n names,
// as its children's beginning, a place in the array of order n + 1; the next node's beginning is
// its children's end. So the beginnings of an array never fall, which is checked: each node is then
// read once. Numbers are packed from the lowest bit on, of each node: the word, 31 bits of the
// probability (its sign is known), and but for the highest order 32 bits of the back-off and the
// beginning. lm/trie.hh and lm/binary_format.cc of KenLM write this.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "engine/fusion/ngram_files.h"
#include "ops/base/status.h"

namespace beamwright::fusion {
namespace {

constexpr absl::string_view kMagic = "mmap lm http://kheafield.com/code";
constexpr size_t kUnigramBytes = 16;
constexpr int kProbBits = 31;
constexpr int kBackoffBits = 32;

int BitsFor(uint64_t most) {
  int bits = 0;
  for (; most > 0; most >>= 1) {
    ++bits;
  }
  return bits;
}

float Float(uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

// The n-grams of an order above 1.
struct PackedLevel {
  absl::string_view bytes;
  int word_bits = 0;
  int next_bits = 0;  // 0: of the highest order
  int entry_bits = 0;
  uint64_t count = 0;

  // bits: at most 57.
  uint64_t Read(uint64_t at, int bits) const {
    const auto value = KenlmValueAt<uint64_t>(bytes, static_cast<size_t>(at / 8));
    return (value >> (at % 8)) & ((uint64_t{1} << bits) - 1);
  }
  uint64_t Place(uint64_t entry) const { return entry * static_cast<uint64_t>(entry_bits); }
  uint64_t Word(uint64_t entry) const { return Read(Place(entry), word_bits); }
  float Prob(uint64_t entry) const {
    constexpr uint64_t kSign = uint64_t{1} << kProbBits;
    return Float(Read(Place(entry) + static_cast<uint64_t>(word_bits), kProbBits) | kSign);
  }
  float Backoff(uint64_t entry) const {
    return next_bits == 0 ? 0
                          : Float(Read(Place(entry) + static_cast<uint64_t>(word_bits + kProbBits),
                                       kBackoffBits));
  }
  uint64_t Next(uint64_t entry) const {
    return Read(Place(entry) + static_cast<uint64_t>(word_bits + kProbBits + kBackoffBits),
                next_bits);
  }
};

class TrieReader {
 public:
  TrieReader(absl::string_view content, const KenlmHeader& header)
      : content_(content), counts_(header.counts) {}

  absl::Status FindLevels(const KenlmHeader& header) {
    hashes_at_ = header.size + 8;
    size_t at = hashes_at_ + 8 * static_cast<size_t>(counts_[0]);
    unigrams_at_ = at;
    at += (static_cast<size_t>(counts_[0]) + 2) * kUnigramBytes;
    BW_RETURN_IF_ERROR(ExpectKenlmSize(content_, at));
    for (size_t i = 1; i < counts_.size(); ++i) {
      PackedLevel& level = levels_.emplace_back();
      const bool is_last = i + 1 == counts_.size();
      level.count = counts_[i];
      level.word_bits = BitsFor(counts_[0]);
      level.next_bits = is_last ? 0 : BitsFor(counts_[i + 1]);
      level.entry_bits =
          level.word_bits + kProbBits + (is_last ? 0 : kBackoffBits + level.next_bits);
      // One entry more, which ends the last one's children; and what an unaligned read may touch.
      const size_t size = (level.Place(level.count + 1) + 7) / 8 + 8;
      BW_RETURN_IF_ERROR(ExpectKenlmSize(content_, at + size));
      level.bytes = content_.substr(at, size);
      at += size;
    }
    words_at_ = at;
    return absl::OkStatus();
  }

  size_t words_at() const { return words_at_; }

  // Words are numbered in the order of their hashes; <unk> is 0 and has none.
  uint32_t WordOf(uint64_t hash) const {
    uint64_t first = 0;
    uint64_t last = counts_[0] - 1;
    while (first < last) {
      const uint64_t middle = (first + last) / 2;
      const auto found = KenlmValueAt<uint64_t>(content_, hashes_at_ + 8 * size_t{middle});
      if (found == hash) {
        return static_cast<uint32_t>(middle + 1);
      }
      (found < hash ? first : last) = found < hash ? middle + 1 : middle;
    }
    return 0;
  }

  // ids: by word; -1: the word is no token, and its n-grams are left out.
  absl::StatusOr<std::vector<Ngram>> ReadNgrams(absl::Span<const int32_t> ids) {
    ids_ = ids;
    for (uint64_t word = 0; word < counts_[0]; ++word) {
      const size_t at = unigrams_at_ + static_cast<size_t>(word) * kUnigramBytes;
      path_ = {ids[static_cast<size_t>(word)]};
      BW_RETURN_IF_ERROR(
          Add(KenlmValueAt<float>(content_, at), KenlmValueAt<float>(content_, at + 4)));
      BW_RETURN_IF_ERROR(AddChildren(0, KenlmValueAt<uint64_t>(content_, at + 8),
                                     KenlmValueAt<uint64_t>(content_, at + kUnigramBytes + 8)));
    }
    return std::move(ngrams_);
  }

 private:
  // `path_`: the last word first.
  absl::Status Add(float prob, float backoff) {
    if (!std::isfinite(prob) || !std::isfinite(backoff)) {
      return Invalid("KenLM's binary has a logarithm that is not finite");
    }
    if (std::find(path_.begin(), path_.end(), -1) == path_.end()) {
      Ngram& ngram = ngrams_.emplace_back();
      ngram.words.assign(path_.rbegin(), path_.rend());
      ngram.log10_prob = -std::fabs(prob);
      ngram.log10_backoff = backoff;
    }
    return absl::OkStatus();
  }

  // Of the entries [begin, end) of levels_[level].
  // Places of an order must not go back (num_read_): a file that names the same entries again and
  // again could grow without bound.
  absl::Status AddChildren(size_t level, uint64_t begin, uint64_t end) {
    if (begin == end) {
      return absl::OkStatus();
    }
    if (level >= levels_.size() || begin > end || end > levels_[level].count ||
        begin < num_read_[level]) {
      return Invalid("KenLM's binary has n-grams of order ", level + 2, " in places ", begin,
                     " to ", end);
    }
    num_read_[level] = end;
    const PackedLevel& packed = levels_[level];
    for (uint64_t entry = begin; entry < end; ++entry) {
      const uint64_t word = packed.Word(entry);
      if (word >= counts_[0]) {
        return Invalid("KenLM's binary has a word ", word, " of ", counts_[0]);
      }
      path_.push_back(ids_[static_cast<size_t>(word)]);
      BW_RETURN_IF_ERROR(Add(packed.Prob(entry), packed.Backoff(entry)));
      if (packed.next_bits > 0) {
        BW_RETURN_IF_ERROR(AddChildren(level + 1, packed.Next(entry), packed.Next(entry + 1)));
      }
      path_.pop_back();
    }
    return absl::OkStatus();
  }

  absl::string_view content_;
  std::vector<uint64_t> counts_;  // by order
  size_t hashes_at_ = 0;
  size_t unigrams_at_ = 0;
  size_t words_at_ = 0;
  std::vector<PackedLevel> levels_;                // of orders 2 and above
  uint64_t num_read_[NgramModel::kMaxOrder] = {};  // by level
  absl::Span<const int32_t> ids_;
  std::vector<int32_t> path_;
  std::vector<Ngram> ngrams_;
};

// A file of either kind.
struct KenlmFile {
  KenlmHeader header;
  std::optional<TrieReader> trie;
  ProbingLayout probing;

  uint64_t num_words() const { return trie.has_value() ? header.counts[0] : probing.num_words; }
  size_t texts() const { return trie.has_value() ? trie->words_at() : probing.texts; }
  uint32_t WordOf(absl::string_view content, absl::string_view text) const {
    const uint64_t hash = KenlmWordHash(text);
    return trie.has_value() ? trie->WordOf(hash) : probing.WordOf(content, hash);
  }
};

absl::StatusOr<KenlmFile> Open(absl::string_view content) {
  KenlmFile file;
  BW_ASSIGN_OR_RETURN(file.header, ReadKenlmHeader(content));
  if (file.header.kind == KenlmHeader::Kind::kTrie) {
    BW_RETURN_IF_ERROR(file.trie.emplace(content, file.header).FindLevels(file.header));
  } else {
    BW_ASSIGN_OR_RETURN(file.probing, FindProbingLayout(content, file.header));
  }
  return file;
}

// By word its token, or -1.
absl::StatusOr<std::vector<int32_t>> TokensOfWords(absl::string_view content, const KenlmFile& file,
                                                   const NgramVocabulary& vocabulary,
                                                   const KenlmTokens& tokens) {
  if (file.header.has_words) {
    BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> words,
                        ReadKenlmTexts(content, file.texts(), file.num_words()));
    std::vector<int32_t> ids;
    bool has_token = false;
    for (const absl::string_view word : words) {
      ids.push_back(ids.empty()      ? vocabulary.unknown_word()
                    : word == "<s>"  ? vocabulary.begin_word()
                    : word == "</s>" ? vocabulary.end_word()
                                     : tokens.token_of(word));
      has_token = has_token || (ids.back() >= 0 && ids.back() < vocabulary.num_tokens);
    }
    if (!has_token) {
      return Invalid("none of the ", words.size(), " unigrams is a token of the target vocabulary");
    }
    return ids;
  }
  std::vector<int32_t> ids(static_cast<size_t>(file.num_words()), -1);
  uint64_t num_found = 0;
  for (int32_t token = 0; token < vocabulary.num_tokens; ++token) {
    int32_t& id = ids[file.WordOf(content, tokens.word_of(token))];
    num_found += id < 0 ? 1 : 0;
    id = token;
  }
  ids[0] = vocabulary.unknown_word();
  for (const auto& [text, id] :
       {std::pair("<s>", vocabulary.begin_word()), std::pair("</s>", vocabulary.end_word())}) {
    if (const uint32_t word = file.WordOf(content, text); word != 0) {
      num_found += ids[word] < 0 ? 1 : 0;
      ids[word] = id;
    }
  }
  if (2 * num_found < ids.size()) {
    return Invalid("is a binary of KenLM without the texts of its words, and ", num_found,
                   " of its ", ids.size(),
                   " words are tokens of the target vocabulary: a model of words needs its texts, "
                   "so build it without -v, or give the ARPA file");
  }
  return ids;
}

}  // namespace

bool IsKenlm(absl::string_view content) { return absl::StartsWith(content, kMagic); }

absl::StatusOr<bool> KenlmHasWords(absl::string_view content) {
  BW_ASSIGN_OR_RETURN(const KenlmHeader header, ReadKenlmHeader(content));
  return header.has_words;
}

absl::StatusOr<std::shared_ptr<const NgramModel>> ReadKenlm(std::string content,
                                                            const NgramVocabulary& vocabulary,
                                                            const KenlmTokens& tokens) {
  BW_ASSIGN_OR_RETURN(KenlmFile file, Open(content));
  BW_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                      TokensOfWords(content, file, vocabulary, tokens));
  if (!file.trie.has_value()) {
    return ServeProbing(std::move(content), std::move(file.probing), vocabulary, ids);
  }
  BW_ASSIGN_OR_RETURN(std::vector<Ngram> ngrams, file.trie->ReadNgrams(ids));
  return NgramModel::Create(vocabulary, std::move(ngrams));
}

absl::StatusOr<std::vector<std::string>> ReadKenlmWords(absl::string_view content) {
  BW_ASSIGN_OR_RETURN(const KenlmFile file, Open(content));
  if (!file.header.has_words) {
    return Invalid("is a binary of KenLM without the texts of its words");
  }
  BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> words,
                      ReadKenlmTexts(content, file.texts(), file.num_words()));
  std::vector<std::string> others;
  for (const absl::string_view word : words) {
    if (word != "<unk>" && word != "<s>" && word != "</s>") {
      others.emplace_back(word);
    }
  }
  return others;
}

}  // namespace beamwright::fusion
