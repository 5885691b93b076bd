// Reads a lexicon whose lines are a word and its spelling in tokens, as in "hello h e l l o |"
// (ReadSpelledLexicon), for models whose tokens are not pieces of the words' texts.
//
// 1. Lines become spellings; a line with a token that is unknown or silent is left out and counted.
// 2. FindBorder finds how spellings mark where words end: one token ends all of them and is used
//    for nothing else (kSeparator), tokens that only end words (kBehind), or tokens that only begin
//    words (kBefore).
// 3. Each token becomes a code of one to three bytes without the space (CodeOf), and words the
//    codes of their spelling. Spaces are put where the border is, so that the words are read as any
//    other text.
//
// Nothing is returned unless more than half of the lines fit and a border is found.
#include "engine/model/spelled_lexicon.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace beamwright::engine {
namespace {

using Spelling = std::vector<int32_t>;

// Where the borders of words are.
enum class Border { kNone, kSeparator, kBehind, kBefore };

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
         : ends               ? Border::kBehind
         : begins             ? Border::kBefore
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
    if (border == Border::kBehind) {
      mark(spelling.back(), absl::StrCat(CodeOf(spelling.back(), size), " "));
    } else if (border == Border::kBefore) {
      mark(spelling.front(), absl::StrCat(" ", CodeOf(spelling.front(), size)));
    }
  }
  return lexicon;
}

}  // namespace beamwright::engine
