#include "engine/model/lexicons.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/numeric/bits.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"

namespace beamwright::engine {

// A lexical table in two file formats and one form in memory: for each source token a list of
// target tokens, all lists in one array (targets of sources_[i] from starts_[i] to starts_[i + 1]).
//
// 1. Text (Read): lines of source token, target token, probability. Entries are sorted by source
//    and falling probability; a target that occurs twice counts once, and max_per_token cuts the
//    list.
// 2. Marian's binary shortlist (ReadBinary): head, offsets, targets; checked for size, checksum,
//    order and range before use.
//
//   8 bytes each: magic, checksum, frequent tokens, best, number of offsets, number of targets,
//   and the offsets; then 4 bytes for each target
//
// 3. Shortlist, for one source: the frequent tokens and the lists of the source's tokens as bits,
//    one for each target. Reading the set bits gives them sorted and without repetition, faster
//    than sorting a thousand tokens. By Marian's rule a binary shortlist is filled with further
//    tokens to a multiple of 8.

namespace {

// A binary lexical shortlist as Marian's converter writes it (lex.50.50.DIR.s2t.bin).
struct BinaryShortlist {
  int num_frequent = 0;  // the first ids of the target vocabulary, which are open to every source
  // Target ids of source id i, ascending: targets[starts[i]] to targets[starts[i + 1] - 1].
  std::vector<size_t> starts;
  std::vector<int32_t> targets;
};

constexpr uint64_t kMagic = 0xF11A48D5013417F5;
constexpr size_t kWord = sizeof(uint64_t);
static_assert(sizeof(size_t) == kWord);
constexpr size_t kHeadWords = 6;

uint64_t WordAt(absl::string_view content, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, content.data() + offset, kWord);
  return word;
}

// As Marian computes it, over whole words.
uint64_t ChecksumOf(absl::string_view content) {
  uint64_t sum = 0;
  for (size_t at = 0; at + kWord <= content.size(); at += kWord) {
    sum ^= WordAt(content, at) + 0x9e3779b9 + (sum << 6) + (sum >> 2);
  }
  return sum;
}

absl::Status CheckList(size_t source, absl::Span<const int32_t> targets, int target_size) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= target_size) {
      return Invalid("source id ", source, ": target id ", static_cast<uint32_t>(targets[i]),
                     " is outside [0, ", target_size, "); is the shortlist of another direction?");
    }
    if (i > 0 && targets[i] <= targets[i - 1]) {
      return Invalid("source id ", source, ": target ids do not ascend at ", targets[i]);
    }
  }
  return absl::OkStatus();
}

// Whether the content begins with the magic number of a binary shortlist.
bool IsBinaryShortlist(absl::string_view content) {
  return content.size() >= kWord && WordAt(content, 0) == kMagic;
}

// InvalidArgument: cut short, a checksum that does not fit, another number of source ids than the
// vocabulary has, target ids outside [0, target_size), lists that do not ascend.
absl::StatusOr<BinaryShortlist> ParseBinaryShortlist(absl::string_view content, int source_size,
                                                     int target_size) {
  if (content.size() < kHeadWords * kWord) {
    return Invalid("is cut short: it has ", content.size(), " bytes");
  }
  const uint64_t num_offsets = WordAt(content, 4 * kWord);
  const uint64_t num_targets = WordAt(content, 5 * kWord);
  if (num_offsets != static_cast<uint64_t>(source_size) + 1) {
    return Invalid("has lists for ", num_offsets - 1, " source ids, but the source vocabulary has ",
                   source_size, "; is the shortlist of another model or direction?");
  }
  const uint64_t left = content.size() - kHeadWords * kWord;
  if (num_offsets > left / kWord || num_targets > (left - num_offsets * kWord) / sizeof(uint32_t)) {
    return Invalid("is cut short: it claims ", num_offsets, " offsets and ", num_targets,
                   " target ids in ", content.size(), " bytes");
  }
  if (ChecksumOf(content.substr(2 * kWord)) != WordAt(content, kWord)) {
    return Invalid("its checksum does not fit its content; the file is damaged");
  }
  BinaryShortlist shortlist;
  shortlist.num_frequent = static_cast<int>(
      std::min<uint64_t>(WordAt(content, 2 * kWord), static_cast<uint64_t>(target_size)));
  shortlist.starts.resize(num_offsets);
  std::memcpy(shortlist.starts.data(), content.data() + kHeadWords * kWord, num_offsets * kWord);
  shortlist.targets.resize(num_targets);
  std::memcpy(shortlist.targets.data(), content.data() + (kHeadWords + num_offsets) * kWord,
              num_targets * sizeof(uint32_t));
  if (shortlist.starts.front() != 0 || shortlist.starts.back() != num_targets) {
    return Invalid("its offsets do not begin at 0 or do not end at ", num_targets);
  }
  const absl::Span<const int32_t> targets = shortlist.targets;
  for (size_t i = 0; i + 1 < shortlist.starts.size(); ++i) {
    const size_t begin = shortlist.starts[i];
    const size_t end = shortlist.starts[i + 1];
    if (end < begin || end > num_targets) {
      return Invalid("source id ", i, ": offset ", end, " does not follow ", begin);
    }
    BW_RETURN_IF_ERROR(CheckList(i, targets.subspan(begin, end - begin), target_size));
  }
  return shortlist;
}

struct Entry {
  int32_t source;
  int32_t target;
  double prob;
};

absl::StatusOr<int32_t> TokenOf(const bundle::TextCodec& codec, absl::string_view side,
                                absl::string_view text) {
  const int32_t id = codec.TokenId(std::string(text));
  if (id < 0) {
    return Invalid("'", absl::Utf8SafeCEscape(text), "' is not a token of the ", side,
                   " vocabulary");
  }
  return id;
}

absl::StatusOr<Entry> ParseLine(absl::string_view line, const bundle::TextCodec& source,
                                const bundle::TextCodec& target, int target_size) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (fields.size() != 2 && fields.size() != 3) {
    return Invalid("has ", fields.size(),
                   " fields; expected a source token, a target token and perhaps a probability");
  }
  Entry entry = {0, 0, 0};
  BW_ASSIGN_OR_RETURN(entry.source, TokenOf(source, "source", fields[0]));
  BW_ASSIGN_OR_RETURN(entry.target, TokenOf(target, "target", fields[1]));
  if (entry.target >= target_size) {
    return Invalid("target token ", entry.target, " is outside [0, ", target_size, ")");
  }
  if (fields.size() == 3 &&
      (!absl::SimpleAtod(fields[2], &entry.prob) || !std::isfinite(entry.prob))) {
    return Invalid("'", absl::Utf8SafeCEscape(fields[2]), "' is not a finite number");
  }
  return entry;
}

bool HaveSameTokens(const bundle::TextCodec& source, const bundle::TextCodec& target) {
  if (source.size() != target.size() || source.size() == 0) {
    return false;
  }
  for (int32_t id = 0; id < source.size(); ++id) {
    if (source.TokenText(id) != target.TokenText(id)) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LexicalTable>> LexicalTable::Read(
    absl::string_view content, const v1::LexicalTableConfig& config,
    const bundle::TextCodec& source, const bundle::TextCodec& target, int target_size) {
  if (IsBinaryShortlist(content)) {
    return ReadBinary(content, config, source, target, target_size);
  }
  std::vector<Entry> entries;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    if (line.empty()) {
      continue;
    }
    const absl::StatusOr<Entry> entry = ParseLine(line, source, target, target_size);
    if (!entry.ok()) {
      return Annotate(entry.status(), absl::StrCat("line ", number));
    }
    entries.push_back(*entry);
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.source != b.source ? a.source < b.source : a.prob > b.prob;
  });
  auto table = absl::WrapUnique(new LexicalTable());
  table->target_size_ = target_size;
  table->num_frequent_ = std::min(config.num_frequent(), target_size);
  const auto most = static_cast<size_t>(config.max_per_token());
  std::vector<int32_t> targets;
  std::vector<int32_t> seen_with(static_cast<size_t>(target_size),
                                 -1);  // by target: the last source
  for (const Entry& entry : entries) {
    if (table->sources_.empty() || table->sources_.back() != entry.source) {
      table->sources_.push_back(entry.source);
      table->starts_.push_back(targets.size());
    }
    int32_t& seen = seen_with[static_cast<size_t>(entry.target)];
    if (seen != entry.source && (most == 0 || targets.size() - table->starts_.back() < most)) {
      targets.push_back(entry.target);
      seen = entry.source;
    }
  }
  table->starts_.push_back(targets.size());
  table->SetTargets(std::move(targets), target_size);
  return std::shared_ptr<const LexicalTable>(std::move(table));
}

absl::StatusOr<std::shared_ptr<const LexicalTable>> LexicalTable::ReadBinary(
    absl::string_view content, const v1::LexicalTableConfig& config,
    const bundle::TextCodec& source, const bundle::TextCodec& target, int target_size) {
  if (config.num_frequent() != 0 || config.max_per_token() != 0) {
    return Invalid(
        "num_frequent and max_per_token are for tables of text; a binary shortlist holds its own");
  }
  if (source.size() == 0) {
    return Invalid("a binary shortlist needs a source vocabulary");
  }
  BW_ASSIGN_OR_RETURN(BinaryShortlist shortlist,
                      ParseBinaryShortlist(content, source.size(), target_size));
  auto table = absl::WrapUnique(new LexicalTable());
  table->is_binary_ = true;
  table->is_shared_ = HaveSameTokens(source, target);
  table->target_size_ = target_size;
  table->num_frequent_ = shortlist.num_frequent;
  table->sources_.resize(static_cast<size_t>(source.size()));
  std::iota(table->sources_.begin(), table->sources_.end(), 0);
  table->starts_ = std::move(shortlist.starts);
  table->SetTargets(std::move(shortlist.targets), target_size);
  return std::shared_ptr<const LexicalTable>(std::move(table));
}

void LexicalTable::SetTargets(std::vector<int32_t> targets, int target_size) {
  if (target_size <= 1 << 16) {
    short_targets_.assign(targets.begin(), targets.end());
  } else {
    long_targets_ = std::move(targets);
    long_targets_.shrink_to_fit();
  }
}

std::vector<int32_t> LexicalTable::Shortlist(absl::Span<const int32_t> source_ids) const {
  constexpr int kBits = 64;
  constexpr int kMultiple = 8;
  // 1. A bit for each target token.
  std::vector<uint64_t> open(static_cast<size_t>(target_size_ + kBits - 1) / kBits);
  const auto is_open = [&open](int32_t id) {
    return (open[static_cast<size_t>(id) / kBits] >> (id % kBits) & 1) != 0;
  };
  const auto add = [&open](int32_t id) {
    open[static_cast<size_t>(id) / kBits] |= uint64_t{1} << (id % kBits);
  };
  const auto add_all = [&](const auto& targets, size_t at) {
    for (size_t i = starts_[at]; i < starts_[at + 1]; ++i) {
      add(targets[i]);
    }
  };
  for (int32_t id = 0; id < num_frequent_; ++id) {
    add(id);
  }
  for (const int32_t id : source_ids) {
    const auto found = std::lower_bound(sources_.begin(), sources_.end(), id);
    if (found != sources_.end() && *found == id) {
      const auto at = static_cast<size_t>(found - sources_.begin());
      long_targets_.empty() ? add_all(short_targets_, at) : add_all(long_targets_, at);
    }
    if (is_shared_ && id >= 0 && id < target_size_) {
      add(id);
    }
  }
  int count = 0;
  for (const uint64_t word : open) {
    count += absl::popcount(word);
  }
  // 2. Further tokens behind the frequent ones, until their number is a multiple of 8.
  for (int32_t id = num_frequent_; is_binary_ && id < target_size_ && count % kMultiple != 0;
       ++id) {
    count += is_open(id) ? 0 : 1;
    add(id);
  }
  // 3. The set bits, ascending.
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (size_t word = 0; word < open.size(); ++word) {
    for (uint64_t left = open[word]; left != 0; left &= left - 1) {
      tokens.push_back(static_cast<int32_t>(word) * kBits + absl::countr_zero(left));
    }
  }
  return tokens;
}

// Reads a lexicon whose lines are a word and its spelling in tokens, as in "hello h e l l o |"
// (ReadSpelledLexicon), for models whose tokens are not pieces of the words' texts.
//
// 1. Lines become spellings; a line with a token that is unknown or silent is left out and counted.
// 2. FindBorder finds how spellings mark where words end: one token ends all of them and is used
//    for nothing else (kSeparator), tokens that only end words (kWordEnd), or tokens that only
//    begin words (kWordBegin).
// 3. Each token becomes a code of one to three bytes without the space (CodeOf), and words the
//    codes of their spelling. Spaces are put where the border is, so that the words are read as any
//    other text.
//
// Nothing is returned unless more than half of the lines fit and a border is found.

namespace {

using Spelling = std::vector<int32_t>;

// Where the borders of words are.
enum class Border { kNone, kSeparator, kWordEnd, kWordBegin };

// Bytes without the space, as many for each token.
std::string CodeOf(int32_t token, int size) {
  constexpr int32_t kBase = 255;
  std::string code;
  for (int i = 0; i < size; ++i, token /= kBase) {
    const int32_t digit = token % kBase;
    code.push_back(static_cast<char>(digit < ' ' ? digit : digit + 1));
  }
  return code;
}

int CodeSize(int32_t num_tokens) {
  constexpr int32_t kOne = 255;
  return num_tokens <= kOne ? 1 : num_tokens <= kOne * kOne ? 2 : 3;
}

Border FindBorder(const std::vector<Spelling>& spellings, int32_t num_tokens) {
  std::vector<bool> before_last(static_cast<size_t>(num_tokens));
  std::vector<bool> behind_first(static_cast<size_t>(num_tokens));
  bool is_separated = true;
  for (const Spelling& spelling : spellings) {
    is_separated &= spelling.size() > 1 && spelling.back() == spellings[0].back();
    for (size_t i = 0; i < spelling.size(); ++i) {
      const auto token = static_cast<size_t>(spelling[i]);
      before_last[token] = before_last[token] || i + 1 < spelling.size();
      behind_first[token] = behind_first[token] || i > 0;
    }
  }
  const bool ends = std::none_of(spellings.begin(), spellings.end(), [&](const Spelling& spelling) {
    return before_last[static_cast<size_t>(spelling.back())];
  });
  const bool begins =
      std::none_of(spellings.begin(), spellings.end(), [&](const Spelling& spelling) {
        return behind_first[static_cast<size_t>(spelling.front())];
      });
  return ends && is_separated ? Border::kSeparator
         : ends               ? Border::kWordEnd
         : begins             ? Border::kWordBegin
                              : Border::kNone;
}

}  // namespace

std::optional<SpelledLexicon> ReadSpelledLexicon(
    absl::string_view content, int32_t num_tokens,
    const std::function<int32_t(absl::string_view)>& token_of,
    const std::function<bool(int32_t)>& is_silent) {
  SpelledLexicon lexicon;
  std::vector<Spelling> spellings;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) {
      continue;
    }
    Spelling spelling;
    for (size_t i = 1; i < fields.size(); ++i) {
      spelling.push_back(token_of(fields[i]));
    }
    if (spelling.empty() || std::any_of(spelling.begin(), spelling.end(), [&](int32_t token) {
          return token < 0 || is_silent(token);
        })) {
      ++lexicon.num_left_out;
    } else {
      spellings.push_back(std::move(spelling));
    }
  }
  const Border border = FindBorder(spellings, num_tokens);
  if (static_cast<int64_t>(spellings.size()) <= lexicon.num_left_out || border == Border::kNone) {
    return std::nullopt;
  }
  const int size = CodeSize(num_tokens);
  std::vector<std::string>& surfaces = lexicon.tokens.surfaces;
  for (int32_t token = 0; token < num_tokens; ++token) {
    surfaces.push_back(is_silent(token) ? std::string() : CodeOf(token, size));
  }
  if (border == Border::kSeparator) {
    surfaces[static_cast<size_t>(spellings[0].back())] = std::string(1, ' ');
  }
  for (Spelling& spelling : spellings) {
    if (border == Border::kSeparator) {
      spelling.pop_back();
    }
    std::string& word = lexicon.words.emplace_back();
    for (const int32_t token : spelling) {
      word += CodeOf(token, size);
    }
  }
  // Surfaces get their spaces once.
  std::vector<bool> is_done(static_cast<size_t>(num_tokens));
  const auto mark = [&](int32_t token, const std::string& surface) {
    const auto at = static_cast<size_t>(token);
    if (!is_done[at]) {
      surfaces[at] = surface;
      is_done[at] = true;
    }
  };
  for (const Spelling& spelling : spellings) {
    if (border == Border::kWordEnd) {
      mark(spelling.back(), absl::StrCat(CodeOf(spelling.back(), size), " "));
    } else if (border == Border::kWordBegin) {
      mark(spelling.front(), absl::StrCat(" ", CodeOf(spelling.front(), size)));
    }
  }
  return lexicon;
}

}  // namespace beamwright::engine
