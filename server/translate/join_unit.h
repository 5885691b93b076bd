// What becomes of a unit when its sentences are translated, and which terms of a glossary it has.
// Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_JOIN_UNIT_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_JOIN_UNIT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/translate/marked_text.h"
#include "server/translate/sentences.h"

namespace beamwright::translate {

// A translation of a sentence; of a unit with markup with the places of its words.
struct FoundSentence {
  std::string text;
  std::vector<Word> words;
};

// The unit with its pieces translated and its markup carried over. sentences: one for each piece
// that is a sentence; null: nothing was found. separate: as JoinPieces. pieces: views into the text
// of the unit.
MarkedText JoinUnit(const MarkedText& unit, absl::Span<const Piece> pieces,
                    absl::Span<const FoundSentence* const> sentences, bool separate);

// Whether a sentence has a term, which is not empty, as whole words.
bool HasTerm(absl::string_view sentence, absl::string_view term);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_JOIN_UNIT_H_
