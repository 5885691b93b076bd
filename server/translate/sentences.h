// SentenceSplitter: cuts a text into sentences that a model can translate one by one, and into the
// bytes between them, which the translation keeps as they are: line ends, tabs, white space, and
// whatever has no letter. Sentence ends are those of Unicode (UAX #29), by ICU, which finds them in
// scripts without spaces as well; after an abbreviation of the language no sentence ends.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_SENTENCES_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_SENTENCES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::translate {

// A view into the text that was split.
struct Piece {
  absl::string_view text;
  // To be translated; false: to be kept.
  bool is_sentence = false;
};

// How many tokens a model reads for a text, without begin and end tokens; 0 of white space.
using CountTokens = absl::FunctionRef<int(absl::string_view)>;

// Thread-safe.
class SentenceSplitter {
 public:
  // `language`: a BCP 47 tag; one that ICU does not know has the rules that all languages share.
  // Internal if ICU has no data.
  static absl::StatusOr<std::unique_ptr<SentenceSplitter>> Create(const std::string& language);
  ~SentenceSplitter();

  // The pieces in order; joined they are `text`, byte for byte. `text` is UTF-8. A sentence has a
  // letter, begins and ends without white space, and has at most `max_tokens` tokens (at least 1)
  // unless it is a single character: a longer one is cut where a line may break, after a comma or
  // the like where there is one.
  std::vector<Piece> Split(absl::string_view text, int max_tokens, CountTokens count) const;

 private:
  struct Rules;
  explicit SentenceSplitter(std::unique_ptr<const Rules> rules);

  const std::unique_ptr<const Rules> rules_;
};

// The text with its sentences replaced: `translations` has one string for each piece that is a
// sentence, in order. Where two sentences touch and the target language separates words by spaces
// (SeparatesWords), a space goes between them.
// `begins`, if not null, gets where each piece begins in the result.
std::string JoinPieces(absl::Span<const Piece> pieces, absl::Span<const std::string> translations,
                       bool separate, std::vector<size_t>* begins = nullptr);

// False for languages that are written without spaces between words, such as Chinese.
bool SeparatesWords(const std::string& language);
// In English: "French" of "fr"; the tag itself where ICU knows no name.
std::string LanguageName(const std::string& language);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_SENTENCES_H_
