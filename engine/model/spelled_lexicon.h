// Lexicons that spell their words in tokens, as flashlight-text's: "hello ▁he llo", "cat K AE T |".
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_SPELLED_LEXICON_H_
#define BEAMWRIGHT_ENGINE_MODEL_SPELLED_LEXICON_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/fusion/word_tree.h"

namespace beamwright::engine {

// A lexicon whose letters are tokens: fusion::Lexicon reads a code of each token in the place of
// its text, with a space where the token begins or ends a word.
struct SpelledLexicon {
  std::vector<std::string> words;  // spellings in codes
  fusion::WordTokens tokens;       // without ends
  int64_t num_left_out = 0;        // lines with what is no token, or without spelling
};

// content: a line for each spelling: the word, then its tokens. token_of: -1 of what is no token.
// is_silent: tokens that belong to no word and may be anywhere, as the blank.
//
// Nothing if fewer than half of the lines are such, or if the borders of words cannot be seen: all
// spellings end with one token that is nowhere else, or no token that ends one is inside another,
// or no token that begins one is inside another.
std::optional<SpelledLexicon> ReadSpelledLexicon(
    absl::string_view content, int32_t num_tokens,
    const std::function<int32_t(absl::string_view)>& token_of,
    const std::function<bool(int32_t)>& is_silent);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_SPELLED_LEXICON_H_
