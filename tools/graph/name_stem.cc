#include "tools/graph/name_stem.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kSideWords[] = {
    "in",   "out",   "input",   "output",  "inputs",  "outputs", "prev",    "previous",
    "next", "past",  "present", "old",     "new",     "init",    "initial", "first",
    "last", "final", "cur",     "current", "updated", "start",   "begin",   "end",
    "t",    "tm1",   "tp1",     "from",    "to"};

}  // namespace

std::vector<std::string> NameWords(absl::string_view name) {
  const std::string text = absl::StrReplaceAll(name, {{"t-1", "tm1"}, {"t+1", "tp1"}});
  std::vector<std::string> words(1);
  char before = '\0';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = absl::ascii_isalnum(byte) || byte >= 0x80;
    const bool hump =
        absl::ascii_isupper(byte) && absl::ascii_islower(static_cast<unsigned char>(before));
    if ((!letter || hump) && !words.back().empty()) {
      words.emplace_back();
    }
    if (letter) {
      words.back().push_back(absl::ascii_tolower(byte));
    }
    before = c;
  }
  if (words.back().empty()) {
    words.pop_back();
  }
  return words;
}

bool HasWord(absl::string_view name, absl::Span<const absl::string_view> words) {
  const std::vector<std::string> own = NameWords(name);
  return std::any_of(own.begin(), own.end(), [&](const std::string& word) {
    return std::find(words.begin(), words.end(), absl::string_view(word)) != words.end();
  });
}

namespace {

// transformers' 'past_key_values.0.key' goes on as 'present.0.key'.
void DropCacheWords(std::vector<std::string>& words) {
  if (words.size() > 3 && (words[0] == "past" || words[0] == "present") && words[1] == "key" &&
      (words[2] == "values" || words[2] == "value")) {
    words.erase(words.begin(), words.begin() + 3);
  }
}

}  // namespace

std::string NameStem(absl::string_view name) {
  std::vector<std::string> words = NameWords(name);
  DropCacheWords(words);
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const std::string& word) {
                               return std::find(std::begin(kSideWords), std::end(kSideWords),
                                                absl::string_view(word)) != std::end(kSideWords);
                             }),
              words.end());
  return absl::StrJoin(words, "_");
}

std::string LooseStem(absl::string_view name, bool is_input) {
  std::string stem = NameStem(name);
  const char mark = is_input ? '0' : 'n';
  if (!stem.empty() && stem.back() == mark) {
    stem.pop_back();
    if (!stem.empty() && stem.back() == '_') {
      stem.pop_back();
    }
  }
  return stem;
}

}  // namespace beamwright::ops
