// Cutting a text in four steps, each on the pieces of the one before. Whatever is not a sentence is
// kept as it is, so that the pieces joined are the text, byte for byte:
//
// 1. Run: lines and columns, at line ends and tabs. A sentence never goes across them.
// 2. AddLine: sentences of a line, at the breaks that ICU finds by UAX #29. GoesOn joins sentences
//    again where the break is after an abbreviation, an initial, or a quotation that goes on in
//    lower case.
// 3. AddSentence, for a sentence of too many tokens: parts at places where a line may break, as
//    many words as fit; after a comma or another end of a clause if that leaves at least half of
//    the tokens in the part.
// 4. AddPart and AddWord, for a word of too many tokens: halves, between two characters.
//
//   "Dr. Smith came at 5 p.m. “Go!” he said.\nNew line"
//     sentences  "Dr. Smith came at 5 p.m. “Go!” he said."   "New line"
//     kept       "\n"
//
// Why our own abbreviations: ICU's FilteredBreakIterator takes the end of any word for an
// abbreviation ("ex." in "complex."), and CLDR's lists lack common ones. Words are compared whole
// here.
#include "server/translate/sentences.h"

#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/ures.h>
#include <unicode/utext.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/base/utf8.h"

namespace beamwright::translate {
namespace {

using AbbreviationSet = absl::flat_hash_set<std::string>;

// Abbreviations that CLDR's lists lack, by language.
struct Abbreviations {
  const char* language;
  const char* words;
};
constexpr Abbreviations kFurther[] = {
    {"en", "Dr. St. Fig. Figs. Eq. Gen. Gov. Sen. Vol. e.g. i.e. cf. Jr. Sr. approx. ca. p.m."},
    {"de", "Prof. Dipl. Ing. bzw. usw. ca. Abb. Bd. d.h. etc. Str. Tab."},
    {"fr", "Dr. Mme. Mlle. etc. p. ex. cf. chap. vol."},
    {"es", "Ud. Uds. etc. pág. núm. vol. p. ej."},
    {"it", "Dott. Prof. Avv. ecc. es. pag. cap. art."},
    {"nl", "dhr. mevr. dr. prof. bijv. enz. blz. nr. o.a. d.w.z."},
    {"pl", "np. prof. dr. ul. tzw. itd. itp. tj. m.in. nr. r."},
    {"cs", "např. tj. tzv. prof. dr. ul. č. str."}};

bool IsWhiteSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

// White space that separates lines or columns.
bool SeparatesLines(char32_t c) {
  return (c >= '\t' && c <= '\r') || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsMark(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0; }

// The character at `at`, and the position behind it; of a byte that is not UTF-8, U+FFFD.
char32_t CharacterAt(absl::string_view text, size_t at, size_t& end) {
  char32_t c = 0xfffd;
  end = at + static_cast<size_t>(std::max(1, Utf8Length(text.substr(at), &c)));
  return c;
}

bool HasLetter(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (u_isalpha(static_cast<UChar32>(CharacterAt(text, at, at)))) {
      return true;
    }
  }
  return false;
}

// Whether a clause ends with the word: with a comma, semicolon, colon or dash, also before a
// bracket or quotation mark.
bool EndsClause(absl::string_view word) {
  while (!word.empty() && absl::StrContains(" )\"'", word.back())) {
    word.remove_suffix(1);
  }
  for (const char* mark : {",", ";", ":", "、", "，", "；", "：", "–", "—", "،", "؛"}) {
    if (absl::EndsWith(word, mark)) {
      return true;
    }
  }
  return false;
}

// Bytes of white space before and behind the rest of `text`.
std::pair<size_t, size_t> OuterWhiteSpace(absl::string_view text) {
  size_t first = text.size();
  size_t last = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = 0;
    if (!IsWhiteSpace(CharacterAt(text, at, end))) {
      first = std::min(first, at);
      last = end;
    }
    at = end;
  }
  return {first, last == 0 ? 0 : text.size() - last};
}

// The place nearest to the middle between two letters with their marks; 0: there is only one.
size_t CutOf(absl::string_view word) {
  size_t best = 0;
  for (size_t at = 0; at < word.size();) {
    size_t end = 0;
    if (!IsMark(CharacterAt(word, at, end)) && at > 0 && (best == 0 || at <= word.size() / 2)) {
      best = at;
    }
    at = end;
  }
  return best;
}

// The positions at which ICU breaks `text`, without 0; the last is its size.
std::vector<size_t> BreaksOf(icu::BreakIterator& rules, absl::string_view text) {
  std::vector<size_t> breaks;
  UErrorCode error = U_ZERO_ERROR;
  UText* const view =
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  const absl::Cleanup close = [view] { utext_close(view); };
  rules.setText(view, error);
  if (U_SUCCESS(error)) {
    rules.first();
    for (int32_t at = rules.next(); at != icu::BreakIterator::DONE; at = rules.next()) {
      breaks.push_back(static_cast<size_t>(at));
    }
  }
  if (breaks.empty() || breaks.back() != text.size()) {
    breaks.push_back(text.size());
  }
  return breaks;
}

// One text that is being split.
class Splitting {
 public:
  Splitting(icu::BreakIterator& sentences, icu::BreakIterator& lines,
            const AbbreviationSet& abbreviations, int max_tokens, CountTokens count)
      : sentences_(sentences),
        lines_(lines),
        abbreviations_(abbreviations),
        max_tokens_(max_tokens),
        count_(count) {}

  std::vector<Piece> Run(absl::string_view text) {
    // 1. Lines and columns.
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      size_t end = 0;
      if (SeparatesLines(CharacterAt(text, at, end))) {
        AddLine(text.substr(begin, at - begin));
        Keep(text.substr(at, end - at));
        begin = end;
      }
      at = end;
    }
    AddLine(text.substr(begin));
    return std::move(pieces_);
  }

 private:
  // 2. Sentences of a line.
  void AddLine(absl::string_view line) {
    if (!HasLetter(line)) {
      Keep(line);
      return;
    }
    size_t begin = 0;
    for (const size_t end : BreaksOf(sentences_, line)) {
      if (GoesOn(line.substr(begin, end - begin), line.substr(end))) {
        continue;
      }
      AddTrimmed(line.substr(begin, end - begin), [this](absl::string_view sentence) {
        if (HasLetter(sentence)) {
          AddSentence(sentence);
        } else {
          Keep(sentence);
        }
      });
      begin = end;
    }
  }

  // Whether a sentence goes on behind a place where ICU ends it: after an abbreviation or the
  // initial of a name, and after a quotation with its own mark that the speaker follows: "Go!" he
  // said.
  bool GoesOn(absl::string_view sentence, absl::string_view rest) const {
    sentence = absl::StripTrailingAsciiWhitespace(sentence);
    if (rest.empty() || sentence.empty()) {
      return false;
    }
    for (const char* quote : {"\"", "'", "”", "’", "»", "」"}) {
      if (absl::EndsWith(sentence, quote)) {
        size_t end = 0;
        return u_islower(static_cast<UChar32>(CharacterAt(rest, 0, end))) != 0;
      }
    }
    if (sentence.back() != '.') {
      return false;
    }
    const size_t space = sentence.find_last_of(" \t(\"'");
    const absl::string_view word =
        space == absl::string_view::npos ? sentence : sentence.substr(space + 1);
    size_t end = 0;
    const bool is_initial =
        u_isupper(static_cast<UChar32>(CharacterAt(word, 0, end))) != 0 && end + 1 == word.size();
    return is_initial || abbreviations_.contains(word);
  }

  // 3. Parts of a sentence that is too long.
  void AddSentence(absl::string_view sentence) {
    if (Fits(sentence)) {
      pieces_.push_back({sentence, true});
      return;
    }
    const std::vector<size_t> breaks = BreaksOf(lines_, sentence);
    size_t begin = 0;   // of the part
    size_t clause = 0;  // the last end of a clause within it; 0: none
    int tokens = 0;     // from the begin of the part, and those of them up to the clause's end
    int clause_tokens = 0;
    size_t word_begin = 0;
    for (const size_t end : breaks) {
      const absl::string_view word = sentence.substr(word_begin, end - word_begin);
      const int word_tokens = count_(word);
      if (tokens > 0 && tokens + word_tokens > max_tokens_) {
        const bool at_clause = clause > begin && clause_tokens * 2 >= tokens;
        const size_t cut = at_clause ? clause : word_begin;
        AddPart(sentence.substr(begin, cut - begin));
        tokens -= at_clause ? clause_tokens : tokens;
        begin = cut;
        // The rest of the part behind the cut may still be too long with the word.
        if (tokens > 0 && tokens + word_tokens > max_tokens_) {
          AddPart(sentence.substr(begin, word_begin - begin));
          begin = word_begin;
          tokens = 0;
        }
      }
      tokens += word_tokens;
      if (EndsClause(word)) {
        clause = end;
        clause_tokens = tokens;
      }
      word_begin = end;
    }
    AddPart(sentence.substr(begin));
  }

  // A part of one word may still be too long.
  void AddPart(absl::string_view part) {
    AddTrimmed(part, [this](absl::string_view word) { AddWord(word); });
  }

  void AddWord(absl::string_view word) {
    const size_t cut = CutOf(word);
    if (!HasLetter(word)) {
      Keep(word);
    } else if (cut == 0 || Fits(word)) {
      pieces_.push_back({word, true});
    } else {
      AddPart(word.substr(0, cut));
      AddPart(word.substr(cut));
    }
  }

  // Keeps the outer white space of `text` and gives the rest to `add`.
  template <typename Add>
  void AddTrimmed(absl::string_view text, Add add) {
    const auto [before, behind] = OuterWhiteSpace(text);
    Keep(text.substr(0, before));
    if (before < text.size()) {
      add(text.substr(before, text.size() - before - behind));
      Keep(text.substr(text.size() - behind));
    }
  }

  void Keep(absl::string_view text) {
    if (text.empty()) {
      return;
    }
    if (!pieces_.empty() && !pieces_.back().is_sentence) {
      absl::string_view& last = pieces_.back().text;
      last = absl::string_view(last.data(), last.size() + text.size());
    } else {
      pieces_.push_back({text, false});
    }
  }

  bool Fits(absl::string_view text) const { return count_(text) <= max_tokens_; }

  icu::BreakIterator& sentences_;
  icu::BreakIterator& lines_;
  const AbbreviationSet& abbreviations_;
  const int max_tokens_;
  const CountTokens count_;
  std::vector<Piece> pieces_;
};

icu::Locale LocaleOf(const std::string& language) {
  UErrorCode error = U_ZERO_ERROR;
  icu::Locale locale = icu::Locale::forLanguageTag(language, error);
  return U_SUCCESS(error) ? locale : icu::Locale::getRoot();
}

void AddWords(absl::string_view words, AbbreviationSet& to) {
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    to.emplace(word);
  }
}

// The language's abbreviations: those of CLDR, which ICU's data have for some languages, and ours.
AbbreviationSet AbbreviationsOf(const icu::Locale& locale) {
  AbbreviationSet words;
  UErrorCode error = U_ZERO_ERROR;
  const auto close = [](UResourceBundle* resource) { ures_close(resource); };
  using Resource = std::unique_ptr<UResourceBundle, decltype(close)>;
  const Resource root(ures_open(U_ICUDATA_NAME "-brkitr", locale.getLanguage(), &error), close);
  const Resource exceptions(ures_getByKey(root.get(), "exceptions", nullptr, &error), close);
  const Resource list(ures_getByKey(exceptions.get(), "SentenceBreak", nullptr, &error), close);
  const int32_t size = U_SUCCESS(error) ? ures_getSize(list.get()) : 0;
  for (int32_t i = 0; i < size; ++i) {
    int32_t length = 0;
    const UChar* const text = ures_getStringByIndex(list.get(), i, &length, &error);
    std::string word;
    if (U_SUCCESS(error)) {
      icu::UnicodeString(text, length).toUTF8String(word);
    }
    AddWords(word, words);
  }
  for (const Abbreviations& further : kFurther) {
    if (absl::string_view(further.language) == locale.getLanguage()) {
      AddWords(further.words, words);
    }
  }
  return words;
}

}  // namespace

struct SentenceSplitter::Rules {
  // Prototypes: each text is split with clones of them, since they have state.
  std::unique_ptr<const icu::BreakIterator> sentences;
  std::unique_ptr<const icu::BreakIterator> lines;
  AbbreviationSet abbreviations;
};

SentenceSplitter::SentenceSplitter(std::unique_ptr<const Rules> rules) : rules_(std::move(rules)) {}
SentenceSplitter::~SentenceSplitter() = default;

absl::StatusOr<std::unique_ptr<SentenceSplitter>> SentenceSplitter::Create(
    const std::string& language) {
  const icu::Locale locale = LocaleOf(language);
  UErrorCode error = U_ZERO_ERROR;
  auto rules = std::make_unique<Rules>();
  rules->sentences.reset(icu::BreakIterator::createSentenceInstance(locale, error));
  rules->lines.reset(icu::BreakIterator::createLineInstance(locale, error));
  if (U_FAILURE(error) || rules->sentences == nullptr || rules->lines == nullptr) {
    return absl::InternalError(
        absl::StrCat("ICU finds no rules for sentences and lines: ", u_errorName(error)));
  }
  rules->abbreviations = AbbreviationsOf(locale);
  return std::unique_ptr<SentenceSplitter>(new SentenceSplitter(std::move(rules)));
}

std::vector<Piece> SentenceSplitter::Split(absl::string_view text, int max_tokens,
                                           CountTokens count) const {
  const std::unique_ptr<icu::BreakIterator> sentences(rules_->sentences->clone());
  const std::unique_ptr<icu::BreakIterator> lines(rules_->lines->clone());
  return Splitting(*sentences, *lines, rules_->abbreviations, max_tokens, count).Run(text);
}

std::string JoinPieces(absl::Span<const Piece> pieces, absl::Span<const std::string> translations,
                       bool separate, std::vector<size_t>* begins) {
  std::string text;
  size_t next = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (separate && i > 0 && pieces[i].is_sentence && pieces[i - 1].is_sentence) {
      text += ' ';
    }
    if (begins != nullptr) {
      begins->push_back(text.size());
    }
    absl::StrAppend(&text,
                    pieces[i].is_sentence ? absl::string_view(translations[next]) : pieces[i].text);
    next += pieces[i].is_sentence ? 1 : 0;
  }
  return text;
}

bool SeparatesWords(const std::string& language) {
  const absl::string_view primary = absl::string_view(language).substr(
      0, std::min(language.find_first_of("-_"), language.size()));
  for (const char* without : {"zh", "ja", "yue", "th", "lo", "km", "my"}) {
    if (absl::EqualsIgnoreCase(primary, without)) {
      return false;
    }
  }
  return true;
}

std::string LanguageName(const std::string& language) {
  const icu::Locale locale = LocaleOf(language);
  icu::UnicodeString name;
  locale.getDisplayName(icu::Locale::getEnglish(), name);
  std::string text;
  name.toUTF8String(text);
  return text.empty() ? language : text;
}

}  // namespace beamwright::translate
