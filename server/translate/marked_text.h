// MarkedText: a text and its markup, so that a translation can carry the markup over: the text is
// translated, and each element goes to the words that come from its content.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_MARKED_TEXT_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_MARKED_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/types/span.h"

namespace beamwright::translate {

inline bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

// A stretch of the text between two tags, a tag without content (begin == end), or bytes that are
// not translated.
struct Element {
  std::string open;   // bytes before the content; of a verbatim element all that is written
  std::string close;  // bytes behind it
  size_t begin = 0;   // the content, in bytes of the text
  size_t end = 0;
  int parent = -1;  // the number of the element around it; -1: none
  // Written as `open`; the content is what the model reads in its place.
  bool is_verbatim = false;
};

struct MarkedText {
  std::string text;
  // In the order in which they are opened; the content of each is within that of its parent, and
  // that of its siblings apart from it.
  std::vector<Element> elements;
};

// A word of a translation.
struct Word {
  size_t begin = 0;  // bytes of the translation
  size_t end = 0;
  size_t source = kUnknown;  // a byte of the source that it comes from

  static constexpr size_t kUnknown = static_cast<size_t>(-1);
};

// `target` with the elements of `source`, each once. An element covers the longest run of words
// that come from its content, and is without content where no word does; a tag without content
// follows the word that it followed. words: ascending, apart.
MarkedText CarryOver(const MarkedText& source, std::string target, absl::Span<const Word> words);

// The text with its markup. escape: <, > and & of the text are written as entities.
std::string WriteMarked(const MarkedText& marked, bool escape);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_MARKED_TEXT_H_
