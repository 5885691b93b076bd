// The key of an n-gram is a chain over its words from the last one backwards, so a lookup needs
// the words of the history. A state is one number, though: 0 for no history, then a
// number for each word, then one for each bucket of the tables of orders 2 to n - 1, in which the
// longest n-gram that ends the history stands. The words of a bucket's n-gram are noted when a
// search first comes to it: its last word, and the state before. Following these notes gives the
// words, the last one first. Notes are atomic: threads that note the same bucket at once write the
// same word and states whose last words agree as far as they are read.
// lm/search_hashed.hh, lm/vocab.cc and util/probing_hash_table.hh of KenLM define the tables.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "engine/fusion/ngram_files.h"
#include "ops/base/status.h"

namespace beamwright::fusion {

// The parts of KenLM's binary format that its two readers share: the header (ReadKenlmHeader), the
// words (ReadKenlmTexts), and the hash of a word (KenlmWordHash, MurmurHash64A).
//
// The header has a magic, numbers that show how the machine writes them, the order and kind of the
// model, and the number of n-grams of each order. Kinds that are not read are refused by name. Each
// number is checked against the size of the file, before memory is taken for it.

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

// MurmurHash64A without a seed, as KenLM hashes words.
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

namespace {

constexpr size_t kWordEntryBytes = 12;
constexpr size_t kUnigramEntryBytes = 8;
constexpr size_t kMiddleEntryBytes = 16;
constexpr size_t kLongestEntryBytes = 12;

// The key of an n-gram that is one word longer at its front.
uint64_t Chain(uint64_t key, uint32_t word) {
  return (key * 8978948897894561157U) ^ (uint64_t{word + 1} * 17894857484156487943U);
}

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

class ProbingNgrams final : public NgramModel {
 public:
  ProbingNgrams(std::string content, ProbingLayout layout, const NgramVocabulary& vocabulary,
                absl::Span<const int32_t> token_of_word);
  // Reads every entry once.
  absl::Status Check();

  State Start() const override { return start_; }
  State Next(State state, int32_t token) const override;
  void Score(State state, absl::Span<float> log_probs) const override;
  float LogProb(State state, int32_t token) const override {
    return LogProbOfWord(HistoryOf(state), word_of_token_[static_cast<size_t>(token)]);
  }
  float LogProbOfEnd(State state) const override {
    return LogProbOfWord(HistoryOf(state), end_word_);
  }
  std::vector<float> MostOfTokens() const override;
  int order() const override { return static_cast<int>(layout_.tables.size()) + 1; }
  int64_t num_ngrams() const override { return num_ngrams_; }
  int64_t num_bytes() const override {
    return static_cast<int64_t>(content_.size() + num_notes_ * sizeof(uint64_t) +
                                word_of_token_.size() * sizeof(uint32_t));
  }

 private:
  static constexpr State kRoot = 0;

  struct History {
    int length = 0;
    uint32_t words[kMaxOrder];  // the last one first
    // [n]: the sum of the back-offs of the last n words and more; of the longest history first.
    double backoffs[kMaxOrder + 1];
  };
  // The longest n-gram that ends with a word.
  struct Longest {
    int length = 1;
    float log10_prob = 0;
    State state = kRoot;  // of its last words as a history
  };

  static State StateOfWord(uint32_t word) { return static_cast<State>(1 + word); }
  float Prob(size_t place) const { return -std::fabs(KenlmValueAt<float>(content_, place)); }
  // A probability's sign says whether a longer n-gram ends so.
  bool Extends(size_t place) const { return !std::signbit(KenlmValueAt<float>(content_, place)); }
  float Backoff(size_t place) const { return KenlmValueAt<float>(content_, place + 4); }
  size_t UnigramPlace(uint32_t word) const {
    return layout_.unigrams + size_t{word} * kUnigramEntryBytes;
  }
  // Without back-offs.
  History WordsOf(State state) const;
  History HistoryOf(State state) const;
  Longest Find(const History& history, uint32_t word) const;
  float LogProbOfWord(const History& history, uint32_t word) const {
    const Longest longest = Find(history, word);
    return NaturalLog(history.backoffs[longest.length] + double{longest.log10_prob});
  }
  std::atomic_ref<uint64_t> Note(State state) const {
    return std::atomic_ref<uint64_t>(notes_[static_cast<size_t>(state - first_states_[0])]);
  }

  const std::string content_;
  const ProbingLayout layout_;
  std::vector<State> first_states_;  // by table, but for the highest order: its bucket 0
  size_t num_notes_ = 0;
  // By bucket; 0: none. Memory that nothing has written yet takes no room.
  std::unique_ptr<uint64_t[], FreeDeleter> notes_;
  std::vector<uint32_t> word_of_token_;
  uint32_t end_word_ = 0;
  State start_ = kRoot;
  int64_t num_ngrams_ = 0;
  float most_log10_prob_ = -std::numeric_limits<float>::infinity();  // of orders 2 and above
  double lift_ = 0;  // the sum over orders of the largest back-off above 0
};

ProbingNgrams::ProbingNgrams(std::string content, ProbingLayout layout,
                             const NgramVocabulary& vocabulary,
                             absl::Span<const int32_t> token_of_word)
    : content_(std::move(content)), layout_(std::move(layout)) {
  uint64_t next = 1 + layout_.num_words;
  for (size_t i = 0; i + 1 < layout_.tables.size(); ++i) {
    first_states_.push_back(static_cast<State>(next));
    next += layout_.tables[i].num_buckets;
    num_notes_ += layout_.tables[i].num_buckets;
  }
  notes_.reset(static_cast<uint64_t*>(std::calloc(std::max<size_t>(num_notes_, 1), 8)));
  const uint32_t begin_word = layout_.WordOf(content_, KenlmWordHash("<s>"));
  start_ = begin_word == 0 ? kRoot : StateOfWord(begin_word);
  end_word_ = layout_.WordOf(content_, KenlmWordHash("</s>"));
  word_of_token_.assign(static_cast<size_t>(vocabulary.num_tokens), 0);
  for (size_t word = 0; word < token_of_word.size(); ++word) {
    const int32_t token = token_of_word[word];
    if (token >= 0 && token < vocabulary.num_tokens) {
      word_of_token_[static_cast<size_t>(token)] = static_cast<uint32_t>(word);
    }
  }
  for (const int32_t token : vocabulary.end_tokens) {
    word_of_token_[static_cast<size_t>(token)] = end_word_;
  }
}

absl::Status ProbingNgrams::Check() {
  if (notes_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for notes on ", num_notes_, " buckets of KenLM's binary"));
  }
  const auto count_backoff = [](float backoff, float& most) {
    most = std::max(most, backoff);
    return std::isfinite(backoff);
  };
  float most_backoff = 0;
  bool is_finite = true;
  for (uint64_t word = 0; word < layout_.num_words; ++word) {
    const size_t place = UnigramPlace(static_cast<uint32_t>(word));
    is_finite =
        is_finite && std::isfinite(Prob(place)) && count_backoff(Backoff(place), most_backoff);
  }
  lift_ = double{most_backoff};
  num_ngrams_ = static_cast<int64_t>(layout_.num_words);
  for (size_t i = 0; i < layout_.tables.size(); ++i) {
    const ProbingTable& table = layout_.tables[i];
    most_backoff = 0;
    uint64_t count = 0;
    for (uint64_t bucket = 0; bucket < table.num_buckets; ++bucket) {
      const size_t place = table.PlaceOf(bucket);
      if (KenlmValueAt<uint64_t>(content_, place) == 0) {
        continue;
      }
      ++count;
      const float prob = Prob(place + 8);
      most_log10_prob_ = std::max(most_log10_prob_, prob);
      is_finite =
          is_finite && std::isfinite(prob) &&
          (i + 1 == layout_.tables.size() || count_backoff(Backoff(place + 8), most_backoff));
    }
    if (count == table.num_buckets) {
      return Invalid("KenLM's binary has no empty bucket for n-grams of order ", i + 2);
    }
    num_ngrams_ += static_cast<int64_t>(count);
    lift_ += double{most_backoff};
  }
  return is_finite ? absl::OkStatus()
                   : Invalid("KenLM's binary has a logarithm that is not finite");
}

ProbingNgrams::History ProbingNgrams::WordsOf(State state) const {
  History history;
  if (state == kRoot) {
    return history;
  }
  // 1. How long it is, by the table that has it.
  const auto later = std::upper_bound(first_states_.begin(), first_states_.end(), state);
  history.length = 1 + static_cast<int>(later - first_states_.begin());
  // 2. Its words. The state of one that was noted is as long as what is left to read.
  for (int i = 0; i < history.length; ++i) {
    if (state < 1 + static_cast<State>(layout_.num_words)) {
      history.words[i] = static_cast<uint32_t>(state - 1);
      history.length = i + 1;
      break;
    }
    const uint64_t note = Note(state).load(std::memory_order_acquire);
    history.words[i] = static_cast<uint32_t>(note >> 32) - 1;
    state = static_cast<State>(static_cast<uint32_t>(note));
  }
  return history;
}

// The words of a state with the sums of their back-offs: what a word pays whose longest n-gram
// reads only some of them.
ProbingNgrams::History ProbingNgrams::HistoryOf(State state) const {
  History history = WordsOf(state);
  double backoffs[kMaxOrder];
  uint64_t key = 0;
  for (int i = 0; i < history.length; ++i) {
    backoffs[i] = 0;
    if (i == 0) {
      key = history.words[0];
      backoffs[0] = double{Backoff(UnigramPlace(history.words[0]))};
      continue;
    }
    key = Chain(key, history.words[i]);
    const ProbingTable& table = layout_.tables[static_cast<size_t>(i - 1)];
    const uint64_t bucket = table.Find(content_, key);
    if (bucket != ProbingTable::kNone) {
      backoffs[i] = double{Backoff(table.PlaceOf(bucket) + 8)};
    }
  }
  history.backoffs[history.length + 1] = 0;
  for (int i = history.length; i > 0; --i) {
    history.backoffs[i] = history.backoffs[i + 1] + backoffs[i - 1];
  }
  return history;
}

// Goes from the word alone to longer n-grams that end with it, a word of the history further back
// each time, and stops where a sign bit says that no longer one exists. Of the highest order there
// are no states.
ProbingNgrams::Longest ProbingNgrams::Find(const History& history, uint32_t word) const {
  Longest longest;
  const size_t unigram = UnigramPlace(word);
  longest.log10_prob = Prob(unigram);
  longest.state = StateOfWord(word);
  bool extends = Extends(unigram);
  uint64_t key = word;
  for (int i = 0; i < history.length && extends; ++i) {
    const auto at = static_cast<size_t>(i);
    key = Chain(key, history.words[i]);
    const uint64_t bucket = layout_.tables[at].Find(content_, key);
    if (bucket == ProbingTable::kNone) {
      break;
    }
    const size_t place = layout_.tables[at].PlaceOf(bucket) + 8;
    longest.length = i + 2;
    longest.log10_prob = Prob(place);
    extends = at < first_states_.size() && Extends(place);
    if (at < first_states_.size()) {
      longest.state = first_states_[at] + static_cast<State>(bucket);
    }
  }
  return longest;
}

// A bucket says which n-gram it is by a hash alone, so the words behind a state are noted the first
// time that it is reached: the word, and the state before. Every thread would write the same, so
// the first note stays.
NgramModel::State ProbingNgrams::Next(State state, int32_t token) const {
  const uint32_t word = word_of_token_[static_cast<size_t>(token)];
  const State next = Find(WordsOf(state), word).state;
  if (next > static_cast<State>(layout_.num_words)) {
    const std::atomic_ref<uint64_t> note = Note(next);
    if (note.load(std::memory_order_relaxed) == 0) {
      note.store((uint64_t{word + 1} << 32) | static_cast<uint32_t>(state),
                 std::memory_order_release);
    }
  }
  return next;
}

void ProbingNgrams::Score(State state, absl::Span<float> log_probs) const {
  const History history = HistoryOf(state);
  for (size_t token = 0; token < log_probs.size(); ++token) {
    log_probs[token] = LogProbOfWord(history, word_of_token_[token]);
  }
}

// A bound for each token over all histories: its best probability in any n-gram, raised by the
// largest back-offs there are.
std::vector<float> ProbingNgrams::MostOfTokens() const {
  std::vector<float> most;
  for (const uint32_t word : word_of_token_) {
    const size_t place = UnigramPlace(word);
    const float log10 = Extends(place) ? std::max(Prob(place), most_log10_prob_) : Prob(place);
    most.push_back(NaturalLog(lift_ + double{log10}));
  }
  return most;
}

}  // namespace

// Open addressing: the next bucket is tried until the key or an empty bucket is met. Check has seen
// that there is an empty one.
uint64_t ProbingTable::Find(absl::string_view content, uint64_t key) const {
  uint64_t bucket = key % num_buckets;
  for (uint64_t i = 0; i < num_buckets; ++i) {
    const auto found = KenlmValueAt<uint64_t>(content, PlaceOf(bucket));
    if (found == key) {
      return key == 0 ? kNone : bucket;
    }
    if (found == 0) {
      return kNone;
    }
    bucket = bucket + 1 == num_buckets ? 0 : bucket + 1;
  }
  return kNone;
}

uint32_t ProbingLayout::WordOf(absl::string_view content, uint64_t hash) const {
  const uint64_t bucket = words.Find(content, hash);
  if (bucket == ProbingTable::kNone) {
    return 0;
  }
  const auto word = KenlmValueAt<uint32_t>(content, words.PlaceOf(bucket) + 8);
  return word < num_words ? word : 0;
}

// Places of the tables within the file, which follow each other without any index: each is as large
// as its count and the header's multiplier say, so a wrong header shows as a file that is cut short
// or as words in another place.
absl::StatusOr<ProbingLayout> FindProbingLayout(absl::string_view content,
                                                const KenlmHeader& header) {
  if (!(header.multiplier >= 1 && header.multiplier <= 1000)) {
    return Invalid("KenLM's binary has ", header.multiplier, " buckets for an n-gram");
  }
  size_t place = header.size + 8;
  const auto add = [&](uint64_t count, size_t entry_bytes) {
    ProbingTable table;
    table.place = place;
    table.entry_bytes = entry_bytes;
    // In single precision, as KenLM computes it.
    table.num_buckets =
        std::max(count + 1, static_cast<uint64_t>(header.multiplier * static_cast<float>(count)));
    place += static_cast<size_t>(table.num_buckets) * entry_bytes;
    return table;
  };
  BW_RETURN_IF_ERROR(ExpectKenlmSize(content, place));
  ProbingLayout layout;
  layout.num_words = KenlmValueAt<uint32_t>(content, header.size + 4);
  layout.words = add(header.counts[0], kWordEntryBytes);
  layout.unigrams = place;
  // <unk> has a place where the n-grams do not list it.
  place += static_cast<size_t>(header.counts[0] + 1) * kUnigramEntryBytes;
  uint64_t num_states = 1 + layout.num_words;
  for (size_t i = 1; i < header.counts.size(); ++i) {
    const bool is_longest = i + 1 == header.counts.size();
    layout.tables.push_back(
        add(header.counts[i], is_longest ? kLongestEntryBytes : kMiddleEntryBytes));
    num_states += is_longest ? 0 : layout.tables.back().num_buckets;
  }
  layout.texts = place;
  BW_RETURN_IF_ERROR(ExpectKenlmSize(content, place));
  if (layout.num_words == 0 || layout.num_words > header.counts[0] + 1) {
    return Invalid("KenLM's binary has ", layout.num_words, " words and ", header.counts[0],
                   " unigrams");
  }
  if (num_states >= static_cast<uint64_t>(std::numeric_limits<NgramModel::State>::max())) {
    return Invalid(
        "KenLM's binary has ", num_states,
        " buckets, and 2^31 can be served: give the file that `build_binary trie` makes");
  }
  return layout;
}

absl::StatusOr<std::shared_ptr<const NgramModel>> ServeProbing(
    std::string content, ProbingLayout layout, const NgramVocabulary& vocabulary,
    absl::Span<const int32_t> token_of_word) {
  const auto model = std::make_shared<ProbingNgrams>(std::move(content), std::move(layout),
                                                     vocabulary, token_of_word);
  BW_RETURN_IF_ERROR(model->Check());
  return std::shared_ptr<const NgramModel>(model);
}

}  // namespace beamwright::fusion
