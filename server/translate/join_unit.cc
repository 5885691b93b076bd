#include "server/translate/join_unit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

namespace beamwright::translate {
namespace {

// Words between white space, which are the same in both languages.
void AddKeptWords(absl::string_view text, size_t begin, size_t source, std::vector<Word>& words) {
  for (size_t at = 0; at < text.size();) {
    const size_t first = text.find_first_not_of(" \t\r\n", at);
    if (first == absl::string_view::npos) {
      return;
    }
    const size_t last = std::min(text.size(), text.find_first_of(" \t\r\n", first));
    words.push_back({begin + first, begin + last, source + first});
    at = last;
  }
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

MarkedText JoinUnit(const MarkedText& unit, absl::Span<const Piece> pieces,
                    absl::Span<const FoundSentence* const> sentences, bool separate) {
  std::vector<std::string> translations;
  for (const FoundSentence* sentence : sentences) {
    translations.push_back(sentence == nullptr ? "" : sentence->text);
  }
  std::vector<size_t> begins;
  std::string text = JoinPieces(pieces, translations, separate, &begins);
  if (unit.elements.empty()) {
    return {std::move(text), {}};
  }
  std::vector<Word> words;
  size_t next = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto source = static_cast<size_t>(pieces[i].text.data() - unit.text.data());
    if (!pieces[i].is_sentence) {
      AddKeptWords(pieces[i].text, begins[i], source, words);
      continue;
    }
    const FoundSentence* const sentence = sentences[next++];
    for (Word word : sentence == nullptr ? std::vector<Word>() : sentence->words) {
      word.begin += begins[i];
      word.end += begins[i];
      word.source += word.source == Word::kUnknown ? 0 : source;
      words.push_back(word);
    }
  }
  return CarryOver(unit, std::move(text), words);
}

bool HasTerm(absl::string_view sentence, absl::string_view term) {
  for (size_t at = sentence.find(term); at != absl::string_view::npos;
       at = sentence.find(term, at + 1)) {
    const size_t end = at + term.size();
    if ((at == 0 || !IsWordCharacter(sentence[at - 1])) &&
        (end == sentence.size() || !IsWordCharacter(sentence[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace beamwright::translate
