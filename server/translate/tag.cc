#include "server/translate/tag.h"

#include "absl/strings/ascii.h"
#include "server/translate/marked_text.h"

namespace beamwright::translate {

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

}  // namespace beamwright::translate
