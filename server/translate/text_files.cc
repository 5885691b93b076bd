// Splits files of plain-text formats into parts that are kept as they are and units that are
// translated: subtitles (SRT, WebVTT) and message catalogues (PO). A Document is the list of parts;
// putting the translations in the places of the units gives the file back, byte for byte elsewhere.
//
// ParseSubtitles: the lines after "-->" up to an empty line are a cue, one unit, with tags (<i>,
// {\an8}) as markup that stays around the same words (EventsOfCue). A translation is broken into as
// many lines as the cue had.
//
// ParsePo: an entry whose msgstr is empty gets a unit with the text of its msgid (or msgid_plural
// for forms after the first); entries that are translated, and the head (empty msgid), are kept.
// Strings may go on over several quoted lines.
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "server/translate/markup.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {
namespace {

using Kind = MarkupEvent::Kind;

// The next line with its end; `text` is what follows.
absl::string_view TakeLine(absl::string_view& text) {
  const size_t end = text.find('\n');
  const absl::string_view line = text.substr(0, end == absl::string_view::npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

absl::string_view WithoutEnd(absl::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  return line;
}

// The text and tags of a cue; tags are such as <i>, <v Roger>, {\an8} or <00:01.5>.
std::vector<MarkupEvent> EventsOfCue(absl::string_view text, bool has_entities) {
  std::vector<MarkupEvent> events;
  std::string plain;
  const auto add_plain = [&] {
    if (!plain.empty()) {
      events.push_back({Kind::kText, std::exchange(plain, ""), "", ""});
    }
  };
  std::string character;
  for (size_t at = 0; at < text.size();) {
    const absl::string_view rest = text.substr(at);
    const size_t end = rest[0] == '<'                  ? rest.find('>')
                       : absl::StartsWith(rest, "{\\") ? rest.find('}')
                                                       : absl::string_view::npos;
    if (end != absl::string_view::npos && end > 1) {
      add_plain();
      const absl::string_view tag = rest.substr(0, end + 1);
      const bool is_closing = tag[1] == '/';
      const absl::string_view name = tag.substr(is_closing ? 2 : 1);
      const bool has_name = absl::ascii_isalpha(static_cast<unsigned char>(name[0]));
      const size_t name_end = name.find_first_of(" .>\t");
      events.push_back({rest[0] == '{' || !has_name ? Kind::kSingle
                        : is_closing                ? Kind::kClose
                                                    : Kind::kOpen,
                        std::string(tag), std::string(name.substr(0, name_end)), ""});
      at += end + 1;
      continue;
    }
    const size_t entity = has_entities ? ReadEntity(rest, character) : 0;
    if (entity > 0) {
      plain += character;
      at += entity;
      continue;
    }
    plain += text[at++];
  }
  add_plain();
  return events;
}

void Keep(absl::string_view bytes, Document& document) {
  if (document.parts.empty() || document.parts.back().unit >= 0) {
    document.parts.emplace_back();
  }
  absl::StrAppend(&document.parts.back().kept, bytes);
}

int AddUnit(MarkedText unit, Document& document) {
  Document::Part part;
  part.unit = static_cast<int>(document.units.size());
  document.parts.push_back(std::move(part));
  document.units.push_back(std::move(unit));
  return document.parts.back().unit;
}

// The content of a quoted string on a line of a catalogue. False: no such string.
bool Unquote(absl::string_view line, std::string& text) {
  line = absl::StripAsciiWhitespace(line);
  if (line.size() < 2 || line[0] != '"' || line.back() != '"') {
    return false;
  }
  line = line.substr(1, line.size() - 2);
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text += line[i];
      continue;
    }
    ++i;
    switch (line[i]) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      default:
        text += line[i];
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Document> ParseSubtitles(absl::string_view text, bool is_vtt) {
  Document document;
  document.escape = is_vtt;
  Keep("", document);
  while (!text.empty()) {
    const absl::string_view line = TakeLine(text);
    Keep(line, document);
    if (!absl::StrContains(line, "-->")) {
      continue;
    }
    std::vector<absl::string_view> lines;
    absl::string_view end;  // of the last line
    while (!text.empty()) {
      absl::string_view rest = text;
      const absl::string_view next = TakeLine(rest);
      const absl::string_view content = WithoutEnd(next);
      if (absl::StripAsciiWhitespace(content).empty()) {
        break;
      }
      lines.push_back(content);
      end = next.substr(content.size());
      text = rest;
    }
    if (lines.empty()) {
      continue;
    }
    BW_ASSIGN_OR_RETURN(MarkedText unit,
                        BuildUnit(EventsOfCue(absl::StrJoin(lines, " "), is_vtt), is_vtt));
    AddUnit(std::move(unit), document);
    document.parts.back().lines = static_cast<int>(lines.size());
    Keep(end, document);
  }
  return document;
}

absl::StatusOr<Document> ParsePo(absl::string_view text) {
  Document document;
  Keep("", document);
  std::string id;
  std::string plural;
  std::string* last = nullptr;  // the string that goes on
  int line_number = 0;
  while (!text.empty()) {
    const absl::string_view line = TakeLine(text);
    ++line_number;
    const absl::string_view content = WithoutEnd(line);
    if (absl::StartsWith(content, "msgid_plural") || absl::StartsWith(content, "msgid")) {
      const bool is_plural = absl::StartsWith(content, "msgid_plural");
      last = is_plural ? &plural : &id;
      plural.clear();
      id.resize(is_plural ? id.size() : 0);
      Keep(line, document);
      if (!Unquote(content.substr(is_plural ? 12 : 5), *last)) {
        return Invalid("line ", line_number, ": the string is not quoted");
      }
    } else if (absl::StartsWith(content, "msgstr")) {
      last = nullptr;
      const size_t quote = content.find('"');
      std::string translated;
      if (quote == absl::string_view::npos || !Unquote(content.substr(quote), translated)) {
        return Invalid("line ", line_number, ": the string is not quoted");
      }
      absl::string_view rest = text;
      const bool goes_on = absl::StartsWith(TakeLine(rest), "\"");
      if (id.empty() || !translated.empty() || goes_on) {
        Keep(line, document);
        continue;
      }
      const bool is_first = content[6] != '[' || absl::StartsWith(content, "msgstr[0]");
      BW_ASSIGN_OR_RETURN(
          MarkedText unit,
          BuildUnit({{Kind::kText, is_first || plural.empty() ? id : plural, "", ""}}, false));
      Keep(content.substr(0, quote), document);
      AddUnit(std::move(unit), document);
      document.parts.back().is_quoted = true;
      Keep(line.substr(content.size()), document);
    } else {
      if (last != nullptr && absl::StartsWith(content, "\"") && !Unquote(content, *last)) {
        return Invalid("line ", line_number, ": the string is not quoted");
      }
      last = absl::StartsWith(content, "\"") ? last : nullptr;
      Keep(line, document);
    }
  }
  return document;
}

std::string QuotedForPo(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        quoted += '\\';
        quoted += c;
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      case '\r':
        quoted += "\\r";
        break;
      default:
        quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace beamwright::translate
