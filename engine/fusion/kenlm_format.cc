// The parts of KenLM's binary format that its two readers share: the header (ReadKenlmHeader), the
// words (ReadKenlmTexts), and the hash of a word (KenlmWordHash, MurmurHash64A).
//
// The header has a magic, numbers that show how the machine writes them, the order and kind of the
// model, and the number of n-grams of each order. Kinds that are not read are refused by name. Each
// number is checked against the size of the file, before memory is taken for it.
#include "engine/fusion/kenlm_format.h"

#include <iterator>

#include "absl/strings/match.h"
#include "engine/fusion/ngram_model.h"
#include "ops/base/status.h"

namespace beamwright::fusion {
namespace {

constexpr absl::string_view kVersion5 = "mmap lm http://kheafield.com/code format version 5\n";
// The magic (56 bytes), six numbers of 32 bits and one of 64 that say how the machine writes them.
constexpr size_t kSanityBytes = 88;
constexpr size_t kFixedBytes = 20;

absl::Status OtherKind(absl::string_view kind) {
  return Invalid("is ", kind,
                 " binary of KenLM; of these, probing files and tries are read: give the file "
                 "that `build_binary` or `build_binary trie` makes, or the ARPA file that it "
                 "read, as it is or in gzip");
}

}  // namespace

absl::StatusOr<KenlmHeader> ReadKenlmHeader(absl::string_view content) {
  constexpr absl::string_view kKinds[] = {"",
                                          "a probing (with rest costs)",
                                          "",
                                          "a quantised trie",
                                          "an array-compressed trie",
                                          "a quantised, array-compressed trie"};
  if (!absl::StartsWith(content, kVersion5) || content.size() < kSanityBytes + kFixedBytes) {
    return OtherKind("another version's");
  }
  KenlmHeader header;
  const auto kind = KenlmValueAt<uint32_t>(content, kSanityBytes + 8);
  if (kind >= std::size(kKinds) || !kKinds[kind].empty()) {
    return OtherKind(kind < std::size(kKinds) ? kKinds[kind] : "an unknown kind of");
  }
  header.kind = static_cast<KenlmHeader::Kind>(kind);
  if (KenlmValueAt<float>(content, 56) != 0 || KenlmValueAt<float>(content, 60) != 1 ||
      KenlmValueAt<float>(content, 64) != -0.5F || KenlmValueAt<uint64_t>(content, 80) != 1) {
    return OtherKind("another kind of machine's");
  }
  header.multiplier = KenlmValueAt<float>(content, kSanityBytes + 4);
  header.has_words = content[kSanityBytes + 12] != 0;
  const auto order = static_cast<size_t>(static_cast<unsigned char>(content[kSanityBytes]));
  if (order < 2 || order > NgramModel::kMaxOrder) {
    return Invalid("is a binary of KenLM of order ", order, "; 2 to ", NgramModel::kMaxOrder,
                   " are allowed");
  }
  size_t place = kSanityBytes + kFixedBytes;
  BW_RETURN_IF_ERROR(ExpectKenlmSize(content, place + 8 * order));
  for (size_t i = 0; i < order; ++i, place += 8) {
    const uint64_t count = header.counts.emplace_back(KenlmValueAt<uint64_t>(content, place));
    // An n-gram has 4 bytes at least.
    if (count > content.size() / 4 || (i == 0 && count == 0)) {
      return Invalid("the header of KenLM's binary says that it has ", count, " n-grams of order ",
                     i + 1, ", and the file has ", content.size(), " bytes");
    }
  }
  header.size = (place + 7) / 8 * 8;
  return header;
}

absl::StatusOr<std::vector<absl::string_view>> ReadKenlmTexts(absl::string_view content,
                                                              size_t place, uint64_t count) {
  std::vector<absl::string_view> words;
  absl::string_view rest = content.substr(place);
  while (words.size() < count) {
    const size_t end = rest.find('\0');
    if (end == absl::string_view::npos) {
      return Invalid("KenLM's binary has ", words.size(), " words of ", count);
    }
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (words.empty() || words[0] != "<unk>") {
    return Invalid("KenLM's binary has its words in another place");
  }
  return words;
}

absl::Status ExpectKenlmSize(absl::string_view content, size_t size) {
  return size <= content.size()
             ? absl::OkStatus()
             : Invalid("KenLM's binary is cut short: it has ", content.size(), " bytes of ", size);
}

uint64_t KenlmWordHash(absl::string_view word) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = word.size() * kFactor;
  for (; word.size() >= 8; word.remove_prefix(8)) {
    uint64_t part = KenlmValueAt<uint64_t>(word, 0) * kFactor;
    part ^= part >> kShift;
    hash = (hash ^ (part * kFactor)) * kFactor;
  }
  if (!word.empty()) {
    uint64_t part = 0;
    std::memcpy(&part, word.data(), word.size());
    hash = (hash ^ part) * kFactor;
  }
  hash = (hash ^ (hash >> kShift)) * kFactor;
  return hash ^ (hash >> kShift);
}

}  // namespace beamwright::fusion
