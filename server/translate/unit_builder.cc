// A unit of a document, text with tags, as MarkedText. Events of a parser go in (text, opening,
// closing and single tags, verbatim bytes).
//
// 1. FindHalves pairs opening and closing tags by name. A tag whose other half is in another unit
//    stays alone.
// 2. OpenFromBegin: elements whose opening tag is in an earlier unit begin before the text.
// 3. Add, for each event: text is appended, elements are opened and closed; a tag that fits nowhere
//    becomes verbatim bytes, so that no byte is lost.
// 4. AddText protects parts of the text from translation: URLs, e-mail addresses, placeholders
//    ({name}, ${name}, %s, %1$d). They become verbatim elements, whose text the model still reads
//    (WithoutEnds: without marks that would end a sentence).
//
//   "Hi <b>{name}</b>, see https://x.org/?a=1."
//     text      Hi {name}, see https://x.org/_a=1.
//     elements  <b> around {name}; verbatim {name}; verbatim https://x.org/?a=1
#include "server/translate/unit_builder.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "server/translate/markup.h"

namespace beamwright::translate {

// Reads character references of HTML and XML, such as "&amp;", "&#228;" and "&#xe4;" (ReadEntity).
// The names of HTML 4 are in one string, which becomes a table on first use. For a reference that
// is not known, or to a character that no text may have, ReadEntity returns 0.

namespace {

constexpr size_t kLongestName = 12;  // of what is between & and ;

// Names of HTML 4 and their characters, in hexadecimal digits.
constexpr char kEntityNames[] =
    "amp 26 lt 3c gt 3e quot 22 apos 27 "
    "AElig c6 Aacute c1 Acirc c2 Agrave c0 Alpha 391 Aring c5 Atilde c3 Auml c4 Beta 392 "
    "Ccedil c7 Chi 3a7 Dagger 2021 Delta 394 ETH d0 Eacute c9 Ecirc ca Egrave c8 Epsilon 395 "
    "Eta 397 Euml cb Gamma 393 Iacute cd Icirc ce Igrave cc Iota 399 Iuml cf Kappa 39a Lambda "
    "39b Mu 39c Ntilde d1 Nu 39d OElig 152 Oacute d3 Ocirc d4 Ograve d2 Omega 3a9 Omicron 39f "
    "Oslash d8 Otilde d5 Ouml d6 Phi 3a6 Pi 3a0 Prime 2033 Psi 3a8 Rho 3a1 Scaron 160 Sigma "
    "3a3 THORN de Tau 3a4 Theta 398 Uacute da Ucirc db Ugrave d9 Upsilon 3a5 Uuml dc Xi 39e "
    "Yacute dd Yuml 178 Zeta 396 aacute e1 acirc e2 acute b4 aelig e6 agrave e0 alefsym 2135 "
    "alpha 3b1 and 2227 ang 2220 aring e5 asymp 2248 atilde e3 auml e4 bdquo 201e beta 3b2 "
    "brvbar a6 bull 2022 cap 2229 ccedil e7 cedil b8 cent a2 chi 3c7 circ 2c6 clubs 2663 cong "
    "2245 copy a9 crarr 21b5 cup 222a curren a4 dArr 21d3 dagger 2020 darr 2193 deg b0 delta "
    "3b4 diams 2666 divide f7 eacute e9 ecirc ea egrave e8 empty 2205 emsp 2003 ensp 2002 "
    "epsilon 3b5 equiv 2261 eta 3b7 eth f0 euml eb euro 20ac exist 2203 fnof 192 forall 2200 "
    "frac12 bd frac14 bc frac34 be frasl 2044 gamma 3b3 ge 2265 hArr 21d4 harr 2194 hearts "
    "2665 hellip 2026 iacute ed icirc ee iexcl a1 igrave ec image 2111 infin 221e int 222b "
    "iota 3b9 iquest bf isin 2208 iuml ef kappa 3ba lArr 21d0 lambda 3bb lang 2329 laquo ab "
    "larr 2190 lceil 2308 ldquo 201c le 2264 lfloor 230a lowast 2217 loz 25ca lrm 200e lsaquo "
    "2039 lsquo 2018 macr af mdash 2014 micro b5 middot b7 minus 2212 mu 3bc nabla 2207 nbsp "
    "a0 ndash 2013 ne 2260 ni 220b not ac notin 2209 nsub 2284 ntilde f1 nu 3bd oacute f3 "
    "ocirc f4 oelig 153 ograve f2 oline 203e omega 3c9 omicron 3bf oplus 2295 or 2228 ordf aa "
    "ordm ba oslash f8 otilde f5 otimes 2297 ouml f6 para b6 part 2202 permil 2030 perp 22a5 "
    "phi 3c6 pi 3c0 piv 3d6 plusmn b1 pound a3 prime 2032 prod 220f prop 221d psi 3c8 rArr "
    "21d2 radic 221a rang 232a raquo bb rarr 2192 rceil 2309 rdquo 201d real 211c reg ae "
    "rfloor 230b rho 3c1 rlm 200f rsaquo 203a rsquo 2019 sbquo 201a scaron 161 sdot 22c5 sect "
    "a7 shy ad sigma 3c3 sigmaf 3c2 sim 223c spades 2660 sub 2282 sube 2286 sum 2211 sup 2283 "
    "sup1 b9 sup2 b2 sup3 b3 supe 2287 szlig df tau 3c4 there4 2234 theta 3b8 thetasym 3d1 "
    "thinsp 2009 thorn fe tilde 2dc times d7 trade 2122 uArr 21d1 uacute fa uarr 2191 ucirc "
    "fb ugrave f9 uml a8 upsih 3d2 upsilon 3c5 uuml fc weierp 2118 xi 3be yacute fd yen a5 "
    "yuml ff zeta 3b6 zwj 200d zwnj 200c ";

using Table = absl::flat_hash_map<absl::string_view, uint32_t>;

const Table& EntityTable() {
  static const auto* const table = [] {
    auto* made = new Table;
    const std::vector<absl::string_view> words =
        absl::StrSplit(absl::string_view(kEntityNames), ' ', absl::SkipEmpty());
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      uint32_t code = 0;
      if (absl::SimpleHexAtoi(words[i + 1], &code)) {
        made->emplace(words[i], code);
      }
    }
    return made;
  }();
  return *table;
}

uint32_t CodeOf(absl::string_view name) {
  uint32_t code = 0;
  if (!absl::StartsWith(name, "#")) {
    const auto it = EntityTable().find(name);
    return it == EntityTable().end() ? 0 : it->second;
  }
  const bool is_hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
  const bool is_number =
      is_hex ? absl::SimpleHexAtoi(name.substr(2), &code) : absl::SimpleAtoi(name.substr(1), &code);
  const bool is_character = code >= 0x20 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return is_number && (is_character || code == '\t' || code == '\n' || code == '\r') ? code : 0;
}

}  // namespace

size_t ReadEntity(absl::string_view text, std::string& character) {
  const size_t end = text.substr(0, kLongestName + 2).find(';');
  if (end == absl::string_view::npos || end < 2 || text[0] != '&') {
    return 0;
  }
  const uint32_t code = CodeOf(text.substr(1, end - 1));
  if (code == 0) {
    return 0;
  }
  uint8_t bytes[4];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, code);
  character.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  return end + 1;
}

Tag ReadTag(absl::string_view text, bool folds_case) {
  Tag tag;
  size_t at = 1;
  tag.is_closing = at < text.size() && text[at] == '/';
  at += tag.is_closing ? 1 : 0;
  const bool has_name =
      at < text.size() && (absl::ascii_isalpha(static_cast<unsigned char>(text[at])) ||
                           text[at] == '_' || static_cast<unsigned char>(text[at]) >= 0x80);
  if (!has_name) {
    return tag;
  }
  const size_t begin = at;
  while (at < text.size() && !IsSpace(text[at]) && text[at] != '>' && text[at] != '/') {
    ++at;
  }
  tag.name = std::string(text.substr(begin, at - begin));
  if (folds_case) {
    absl::AsciiStrToLower(&tag.name);
  }
  for (char quote = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      quote = c == quote ? 0 : quote;
    } else if ((c == '"' || c == '\'') && text[at - 1] == '=') {
      quote = c;
    } else if (c == '>') {
      tag.is_empty = text[at - 1] == '/';
      tag.size = at + 1;
      return tag;
    }
  }
  return tag;
}

namespace {

using Kind = MarkupEvent::Kind;

constexpr size_t kNone = static_cast<size_t>(-1);

bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }
bool IsOneOf(char c, absl::string_view set) { return set.find(c) != absl::string_view::npos; }

size_t UrlBytes(absl::string_view text) {
  const bool is_url = absl::StartsWith(text, "http://") || absl::StartsWith(text, "https://") ||
                      absl::StartsWith(text, "ftp://") || absl::StartsWith(text, "www.");
  if (!is_url) {
    return 0;
  }
  size_t end = 0;
  while (end < text.size() && !IsSpace(text[end]) && !IsOneOf(text[end], "<>\"")) {
    ++end;
  }
  while (end > 0 && IsOneOf(text[end - 1], ".,;:!?)'")) {
    --end;
  }
  return end;
}

size_t AddressBytes(absl::string_view text) {
  constexpr size_t kLongest = 254;
  text = text.substr(0, kLongest);
  size_t at = 0;
  while (at < text.size() && (IsAlnum(text[at]) || IsOneOf(text[at], "._%+-"))) {
    ++at;
  }
  if (at == 0 || at == text.size() || text[at] != '@') {
    return 0;
  }
  size_t end = at + 1;
  while (end < text.size() && (IsAlnum(text[end]) || IsOneOf(text[end], ".-"))) {
    ++end;
  }
  while (end > at && text[end - 1] == '.') {
    --end;
  }
  return absl::StrContains(text.substr(at, end - at), '.') ? end : 0;
}

// {name}, {{name}}, ${name}, %{name}
size_t BracedBytes(absl::string_view text) {
  constexpr size_t kLongest = 64;
  size_t begin = !text.empty() && IsOneOf(text[0], "$%") ? 1 : 0;
  size_t depth = 0;
  while (begin < text.size() && text[begin] == '{' && depth < 2) {
    ++depth;
    ++begin;
  }
  if (depth == 0) {
    return 0;
  }
  size_t end = begin;
  while (end < text.size() && end < kLongest && !IsOneOf(text[end], "{}\n")) {
    ++end;
  }
  if (end == begin || text.substr(end, depth) != (depth == 1 ? "}" : "}}")) {
    return 0;
  }
  return end + depth;
}

// %s, %1$s, %-5.2f, %(name)s, %@
size_t FormatBytes(absl::string_view text) {
  if (text.size() < 2 || text[0] != '%') {
    return 0;
  }
  size_t at = 1;
  if (text[1] == '(') {
    const size_t close = text.substr(0, 64).find(')');
    if (close == absl::string_view::npos) {
      return 0;
    }
    at = close + 1;
  }
  const size_t most = std::min(text.size(), at + 12);
  while (at < most && (absl::ascii_isdigit(static_cast<unsigned char>(text[at])) ||
                       IsOneOf(text[at], "$-+#.lhz"))) {
    ++at;
  }
  const bool is_format = at < text.size() && IsOneOf(text[at], "sdiufgxXc@") &&
                         (at + 1 == text.size() || !IsAlnum(text[at + 1]));
  return is_format ? at + 1 : 0;
}

// Verbatim bytes as the model reads them: without marks that would end a sentence.
std::string WithoutEnds(absl::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return IsOneOf(c, "?!\n\r\t"); }, '_');
  return shown;
}

class Building {
 public:
  Building(std::vector<MarkupEvent> events, bool escape)
      : events_(std::move(events)), escape_(escape), other_half_(events_.size(), kNone) {}

  absl::StatusOr<MarkedText> Run() {
    BW_RETURN_IF_ERROR(FindHalves());
    OpenFromBegin();
    for (size_t i = 0; i < events_.size(); ++i) {
      Add(i);
    }
    while (!open_.empty()) {
      Close("");
    }
    return std::move(unit_);
  }

 private:
  struct Open {
    int number;    // of the element
    size_t event;  // that closes it; kNone: the end of the unit
  };

  // A closing tag belongs to the last open tag of its name; tags that were opened after that one
  // stay without their half, as in "<b><i>x</b>", where <i> is never closed.
  absl::Status FindHalves() {
    std::vector<size_t> open;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].kind == Kind::kOpen) {
        open.push_back(i);
        if (open.size() > kMaxNested) {
          return Invalid("tags are nested deeper than ", kMaxNested);
        }
      } else if (events_[i].kind == Kind::kClose) {
        const auto it = std::find_if(open.rbegin(), open.rend(), [&](size_t one) {
          return events_[one].name == events_[i].name;
        });
        if (it != open.rend()) {
          other_half_[*it] = i;
          other_half_[i] = *it;
          open.erase(std::prev(it.base()), open.end());
        }
      }
    }
    return absl::OkStatus();
  }

  // Elements of closing tags whose opening tag is in an earlier unit; the last of them is the
  // outermost.
  void OpenFromBegin() {
    size_t depth = 0;
    std::vector<size_t> closing;
    for (size_t i = 0; i < events_.size() && closing.size() < kMaxNested; ++i) {
      if (events_[i].kind == Kind::kOpen) {
        if (other_half_[i] == kNone) {
          break;
        }
        ++depth;
      } else if (events_[i].kind == Kind::kClose && other_half_[i] != kNone) {
        --depth;
      } else if (events_[i].kind == Kind::kClose && depth == 0) {
        closing.push_back(i);
      }
    }
    for (auto it = closing.rbegin(); it != closing.rend(); ++it) {
      Begin("", *it);
    }
  }

  void Begin(std::string bytes, size_t closing_event) {
    Element element;
    element.open = std::move(bytes);
    element.begin = element.end = unit_.text.size();
    element.parent = parent();
    unit_.elements.push_back(std::move(element));
    open_.push_back({static_cast<int>(unit_.elements.size()) - 1, closing_event});
  }

  void Close(std::string bytes) {
    Element& element = unit_.elements[static_cast<size_t>(open_.back().number)];
    element.close = std::move(bytes);
    element.end = unit_.text.size();
    open_.pop_back();
  }

  void AddVerbatim(std::string bytes, absl::string_view shown) {
    Element element;
    element.open = std::move(bytes);
    element.begin = unit_.text.size();
    unit_.text.append(shown.data(), shown.size());
    element.end = unit_.text.size();
    element.parent = parent();
    element.is_verbatim = true;
    unit_.elements.push_back(std::move(element));
  }

  void Add(size_t i) {
    MarkupEvent& event = events_[i];
    switch (event.kind) {
      case Kind::kText:
        AddText(event.bytes);
        return;
      case Kind::kVerbatim:
        AddVerbatim(std::move(event.bytes), WithoutEnds(event.shown));
        return;
      case Kind::kOpen:
        if (other_half_[i] != kNone || std::all_of(open_.begin(), open_.end(), [](const Open& one) {
              return one.event == kNone;
            })) {
          Begin(std::move(event.bytes), other_half_[i]);
          return;
        }
        break;
      case Kind::kClose:
        if (!open_.empty() && open_.back().event == i) {
          Close(std::move(event.bytes));
          return;
        }
        break;
      case Kind::kSingle:
        break;
    }
    AddVerbatim(std::move(event.bytes), "");
  }

  void AddText(absl::string_view text) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t size = ProtectedBytes(text.substr(at), at == 0 ? ' ' : text[at - 1]);
      if (size == 0) {
        ++at;
        continue;
      }
      unit_.text.append(text.data() + begin, at - begin);
      MarkedText kept;
      kept.text = std::string(text.substr(at, size));
      AddVerbatim(WriteMarked(kept, escape_), WithoutEnds(kept.text));
      at += size;
      begin = at;
    }
    unit_.text.append(text.data() + begin, text.size() - begin);
  }

  int parent() const { return open_.empty() ? -1 : open_.back().number; }

  std::vector<MarkupEvent> events_;
  const bool escape_;
  std::vector<size_t> other_half_;  // of each event that is a tag
  MarkedText unit_;
  std::vector<Open> open_;
};

}  // namespace

size_t ProtectedBytes(absl::string_view text, char before) {
  if (text.empty() || !(IsAlnum(text[0]) || IsOneOf(text[0], "{$%"))) {
    return 0;
  }
  if (IsOneOf(text[0], "{$%")) {
    const size_t braced = BracedBytes(text);
    return braced > 0 ? braced : FormatBytes(text);
  }
  if (IsAlnum(before) || IsOneOf(before, "._-@/")) {
    return 0;
  }
  const size_t url = UrlBytes(text);
  return url > 0 ? url : AddressBytes(text);
}

absl::StatusOr<MarkedText> BuildUnit(std::vector<MarkupEvent> events, bool escape) {
  return Building(std::move(events), escape).Run();
}

}  // namespace beamwright::translate
