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

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "server/translate/markup.h"

namespace beamwright::translate {
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
