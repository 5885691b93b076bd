// The trie is of reversed n-grams: below a word are the words before it. A node of order n names,
// as its children's beginning, a place in the array of order n + 1; the next node's beginning is
// its children's end. So the beginnings of an array never fall, which is checked: each node is then
// read once. Numbers are packed from the lowest bit on, of each node: the word, 31 bits of the
// probability (its sign is known), and but for the highest order 32 bits of the back-off and the
// beginning. lm/trie.hh and lm/binary_format.cc of KenLM write this.
#include "engine/fusion/kenlm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"

namespace beamwright::fusion {
namespace {

constexpr absl::string_view kMagic = "mmap lm http://kheafield.com/code";
constexpr absl::string_view kVersion5 = "mmap lm http://kheafield.com/code format version 5\n";
// The magic (56 bytes), six numbers of 32 bits and one of 64 that say how the machine writes them.
constexpr size_t kSanityBytes = 88;
constexpr size_t kFixedBytes = 20;
constexpr size_t kUnigramBytes = 16;
constexpr int kProbBits = 31;
constexpr int kBackoffBits = 32;

template <typename T>
T At(absl::string_view content, size_t place) {
  T value;
  std::memcpy(&value, content.data() + place, sizeof(T));
  return value;
}

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
    const auto value = At<uint64_t>(bytes, static_cast<size_t>(at / 8));
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
  explicit TrieReader(absl::string_view content) : content_(content) {}

  absl::Status ReadHeader() {
    constexpr absl::string_view kKinds[] = {
        "a probing",        "a probing (with rest costs)", "a trie",
        "a quantised trie", "an array-compressed trie",    "a quantised, array-compressed trie"};
    constexpr uint32_t kTrie = 2;
    if (!absl::StartsWith(content_, kVersion5) || content_.size() < kSanityBytes + kFixedBytes) {
      return Other("another version's");
    }
    const auto kind = At<uint32_t>(content_, kSanityBytes + 8);
    if (kind != kTrie) {
      return Other(kind < std::size(kKinds) ? kKinds[kind] : "an unknown kind of");
    }
    if (At<float>(content_, 56) != 0 || At<float>(content_, 60) != 1 ||
        At<float>(content_, 64) != -0.5F || At<uint64_t>(content_, 80) != 1) {
      return Other("another kind of machine's");
    }
    if (content_[kSanityBytes + 12] == 0) {
      return Other("a wordless");
    }
    const auto order = static_cast<size_t>(static_cast<unsigned char>(content_[kSanityBytes]));
    if (order < 2 || order > NgramModel::kMaxOrder) {
      return Invalid("is a binary of KenLM of order ", order, "; 2 to ", NgramModel::kMaxOrder,
                     " are allowed");
    }
    size_t at = kSanityBytes + kFixedBytes;
    BW_RETURN_IF_ERROR(Expect(at + 8 * order));
    for (size_t i = 0; i < order; ++i, at += 8) {
      counts_.push_back(At<uint64_t>(content_, at));
      // No n-gram takes less than 4 bytes.
      if (counts_[i] > content_.size() / 4 || (i == 0 && counts_[i] == 0)) {
        return Invalid("the header of KenLM's binary says that it has ", counts_[i],
                       " n-grams of order ", i + 1, ", and the file has ", content_.size(),
                       " bytes");
      }
    }
    return FindLevels((at + 7) / 8 * 8);
  }

  // By number; the first is <unk>.
  absl::StatusOr<std::vector<absl::string_view>> ReadWords() const {
    std::vector<absl::string_view> words;
    absl::string_view rest = content_.substr(words_at_);
    while (words.size() < counts_[0]) {
      const size_t end = rest.find('\0');
      if (end == absl::string_view::npos) {
        return Invalid("KenLM's binary has ", words.size(), " words of ", counts_[0]);
      }
      words.push_back(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (words[0] != "<unk>") {
      return Invalid("KenLM's binary has its words in another place");
    }
    return words;
  }

  // ids: by word; -1: the word is no token, and its n-grams are left out.
  absl::StatusOr<std::vector<Ngram>> ReadNgrams(absl::Span<const int32_t> ids) {
    ids_ = ids;
    for (uint64_t word = 0; word < counts_[0]; ++word) {
      const size_t at = unigrams_at_ + static_cast<size_t>(word) * kUnigramBytes;
      path_ = {ids[static_cast<size_t>(word)]};
      BW_RETURN_IF_ERROR(Add(At<float>(content_, at), At<float>(content_, at + 4)));
      BW_RETURN_IF_ERROR(AddChildren(0, At<uint64_t>(content_, at + 8),
                                     At<uint64_t>(content_, at + kUnigramBytes + 8)));
    }
    return std::move(ngrams_);
  }

 private:
  static absl::Status Other(absl::string_view kind) {
    return Invalid("is ", kind,
                   " binary of KenLM; of these, only tries are read: give the file that "
                   "`build_binary trie` makes, or the ARPA file that it read, as it is or in gzip");
  }

  absl::Status Expect(size_t size) const {
    return size <= content_.size() ? absl::OkStatus()
                                   : Invalid("KenLM's binary is cut short: it has ",
                                             content_.size(), " bytes of ", size);
  }

  absl::Status FindLevels(size_t at) {
    at += 8 + 8 * static_cast<size_t>(counts_[0]);  // hashes of the words
    unigrams_at_ = at;
    at += (static_cast<size_t>(counts_[0]) + 2) * kUnigramBytes;
    BW_RETURN_IF_ERROR(Expect(at));
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
      BW_RETURN_IF_ERROR(Expect(at + size));
      level.bytes = content_.substr(at, size);
      at += size;
    }
    words_at_ = at;
    return absl::OkStatus();
  }

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
  size_t unigrams_at_ = 0;
  size_t words_at_ = 0;
  std::vector<PackedLevel> levels_;                // of orders 2 and above
  uint64_t num_read_[NgramModel::kMaxOrder] = {};  // by level
  absl::Span<const int32_t> ids_;
  std::vector<int32_t> path_;
  std::vector<Ngram> ngrams_;
};

}  // namespace

bool IsKenlm(absl::string_view content) { return absl::StartsWith(content, kMagic); }

absl::StatusOr<std::shared_ptr<const NgramModel>> ReadKenlm(
    absl::string_view content, const NgramVocabulary& vocabulary,
    const std::function<int32_t(absl::string_view)>& token_of) {
  TrieReader reader(content);
  BW_RETURN_IF_ERROR(reader.ReadHeader());
  BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> words, reader.ReadWords());
  std::vector<int32_t> ids;
  bool has_token = false;
  for (const absl::string_view word : words) {
    ids.push_back(ids.empty()      ? vocabulary.unknown_word()
                  : word == "<s>"  ? vocabulary.begin_word()
                  : word == "</s>" ? vocabulary.end_word()
                                   : token_of(word));
    has_token = has_token || (ids.back() >= 0 && ids.back() < vocabulary.num_tokens);
  }
  if (!has_token) {
    return Invalid("none of the ", words.size(), " unigrams is a token of the target vocabulary");
  }
  BW_ASSIGN_OR_RETURN(std::vector<Ngram> ngrams, reader.ReadNgrams(ids));
  return NgramModel::Create(vocabulary, std::move(ngrams));
}

absl::StatusOr<std::vector<std::string>> ReadKenlmWords(absl::string_view content) {
  TrieReader reader(content);
  BW_RETURN_IF_ERROR(reader.ReadHeader());
  BW_ASSIGN_OR_RETURN(const std::vector<absl::string_view> words, reader.ReadWords());
  std::vector<std::string> others;
  for (const absl::string_view word : words) {
    if (word != "<unk>" && word != "<s>" && word != "</s>") {
      others.emplace_back(word);
    }
  }
  return others;
}

}  // namespace beamwright::fusion
