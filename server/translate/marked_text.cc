// How markup gets from a source to its translation. Elements are a tree; words of the translation
// know which byte of the source they come from, by attention. Placing goes down the tree and gives
// each element a range of the target:
//
// 1. LabelWords: the innermost element that each word comes from. A word of unknown source has the
//    label of its neighbour.
// 2. FindRuns: for each child of an element, the longest run of words from its content. One word of
//    the parent inside does not end the run.
// 3. FindPlaces: children without words, an empty tag for example, go behind the word that comes
//    from the text before them, and never into the run of another child.
// 4. PlaceHalves: an element that begins before the text, or ends behind it, does so in the
//    translation too.
// 5. Place sorts the children by their ranges, moves each behind the end of the one before, and
//    descends into it.
//
//   source  I <b>really</b> like <i>it</i>
//   words   Das(it) gefällt(like) mir(I) wirklich(really) gut(like)    with their source words
//   result  <i>Das</i> gefällt mir <b>wirklich</b> gut
//
// Every element occurs once in the result and the tree keeps its shape, so that the markup stays
// well-formed whatever attention says. WriteMarked writes the tags and the text in one pass.
#include "server/translate/marked_text.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace beamwright::translate {
namespace {

constexpr int kRoot = -1;

void AppendText(absl::string_view text, bool escape, std::string& to) {
  if (!escape) {
    absl::StrAppend(&to, text);
    return;
  }
  for (const char c : text) {
    switch (c) {
      case '<':
        to += "&lt;";
        break;
      case '>':
        to += "&gt;";
        break;
      case '&':
        to += "&amp;";
        break;
      default:
        to += c;
    }
  }
}

bool IsSpaceBefore(absl::string_view text, size_t at) { return at > 0 && IsSpace(text[at - 1]); }

// Places the elements from the root down: each element's children are placed within its range.
class Placing {
 public:
  Placing(const MarkedText& source, std::string target, absl::Span<const Word> words)
      : source_(source), words_(words), children_(source.elements.size() + 1) {
    placed_.text = std::move(target);
    depths_.reserve(source.elements.size());
    for (size_t i = 0; i < source.elements.size(); ++i) {
      const int parent = source.elements[i].parent;
      children_[static_cast<size_t>(parent + 1)].push_back(static_cast<int>(i));
      depths_.push_back(parent == kRoot ? 0 : depths_[static_cast<size_t>(parent)] + 1);
    }
    LabelWords();
  }

  MarkedText Run() {
    Place(kRoot, kRoot, {0, words_.size(), 0, placed_.text.size()});
    return std::move(placed_);
  }

 private:
  // Words, and the bytes from the first of them to the last.
  struct Range {
    size_t first;
    size_t last;  // behind
    size_t begin;
    size_t end;
  };
  struct Child {
    int number = 0;
    size_t best_first = 0;  // the longest run so far
    size_t best_last = 0;
    size_t first = 0;  // the run that goes on
    size_t last = 0;
    bool has_run() const { return best_last > best_first; }
    int order = 0;  // among its siblings: -1 begins before the text, 1 ends behind it
  };

  // The innermost element that each word comes from.
  void LabelWords() {
    // Where in the source another element begins to be the innermost.
    std::vector<std::pair<size_t, int>> changes = {{0, kRoot}};
    std::vector<int> open;
    const auto close_until = [&](int parent) {
      while (!open.empty() && open.back() != parent) {
        const int last = open.back();
        open.pop_back();
        changes.emplace_back(source_.elements[static_cast<size_t>(last)].end,
                             open.empty() ? kRoot : open.back());
      }
    };
    for (size_t i = 0; i < source_.elements.size(); ++i) {
      const Element& element = source_.elements[i];
      if (element.begin < element.end) {  // so its parents have content, too
        close_until(element.parent);
        open.push_back(static_cast<int>(i));
        changes.emplace_back(element.begin, open.back());
      }
    }
    close_until(kRoot);
    labels_.reserve(words_.size());
    // A word of unknown source is where the word before it is; the first ones, where the next is.
    size_t num_unknown = 0;
    for (const Word& word : words_) {
      if (word.source == Word::kUnknown) {
        num_unknown += num_unknown == labels_.size() ? 1 : 0;
        labels_.push_back(labels_.empty() ? kRoot : labels_.back());
        continue;
      }
      // The last change at or before the byte.
      const auto next = std::upper_bound(
          changes.begin(), changes.end(), word.source,
          [](size_t at, const std::pair<size_t, int>& change) { return at < change.first; });
      labels_.push_back(std::prev(next)->second);
    }
    for (size_t i = 0; num_unknown < labels_.size() && i < num_unknown; ++i) {
      labels_[i] = labels_[num_unknown];
    }
  }

  // The child of `parent` that an element is or is in; kRoot: it is in none.
  int ChildAround(int element, int parent) const {
    const int depth = parent == kRoot ? 0 : depths_[static_cast<size_t>(parent)] + 1;
    while (element != kRoot && depths_[static_cast<size_t>(element)] > depth) {
      element = source_.elements[static_cast<size_t>(element)].parent;
    }
    return element != kRoot && source_.elements[static_cast<size_t>(element)].parent == parent
               ? element
               : kRoot;
  }

  // Gives `children` their longest runs of words. A word of the parent itself does not end a run
  // that goes on behind it.
  void FindRuns(int parent, const Range& range, std::vector<Child>& children) const {
    for (size_t w = range.first; w < range.last; ++w) {
      const int around = ChildAround(labels_[w], parent);
      if (around == kRoot) {
        continue;
      }
      Child& child =
          *std::lower_bound(children.begin(), children.end(), around,
                            [](const Child& one, int number) { return one.number < number; });
      const bool goes_on = child.last > child.first &&
                           (child.last == w || (child.last + 1 == w && labels_[w - 1] == parent));
      child.first = goes_on ? child.first : w;
      child.last = w + 1;
      if (child.last - child.first > child.best_last - child.best_first) {
        child.best_first = child.first;
        child.best_last = child.last;
      }
    }
  }

  // Places children without words: behind the word that comes from the text before them.
  void FindPlaces(const Range& range, std::vector<Child>& children) const {
    std::vector<std::pair<size_t, size_t>> by_source;  // byte, word
    for (size_t w = range.first; w < range.last; ++w) {
      if (words_[w].source != Word::kUnknown) {
        by_source.emplace_back(words_[w].source, w);
      }
    }
    std::sort(by_source.begin(), by_source.end());
    for (Child& child : children) {
      if (child.has_run()) {
        continue;
      }
      const size_t at = source_.elements[static_cast<size_t>(child.number)].begin;
      const auto behind =
          std::lower_bound(by_source.begin(), by_source.end(), std::make_pair(at, size_t{0}));
      child.best_first = behind == by_source.end()     ? range.last
                         : behind == by_source.begin() ? range.first
                                                       : std::prev(behind)->second + 1;
      child.best_last = child.best_first;
    }
    // Not into the run of another child.
    std::vector<std::pair<size_t, size_t>> runs;
    for (const Child& child : children) {
      if (child.has_run()) {
        runs.emplace_back(child.best_first, child.best_last);
      }
    }
    std::sort(runs.begin(), runs.end());
    for (Child& child : children) {
      if (child.has_run()) {
        continue;
      }
      const auto next =
          std::lower_bound(runs.begin(), runs.end(), std::make_pair(child.best_first, size_t{0}));
      if (next != runs.begin() && std::prev(next)->second > child.best_first) {
        child.best_first = child.best_last = std::prev(next)->second;
      }
    }
  }

  // An element that begins before the text or ends behind it does so in the translation, too, and
  // the others are behind or before it.
  void PlaceHalves(const Range& range, std::vector<Child>& children) const {
    size_t first = range.first;
    size_t last = range.last;
    for (Child& child : children) {
      const Element& element = source_.elements[static_cast<size_t>(child.number)];
      if (element.is_verbatim || (!element.open.empty() && !element.close.empty())) {
        continue;
      }
      if (element.open.empty()) {
        child.order = -1;
        first = child.best_last = child.has_run() ? child.best_last : range.first;
        child.best_first = range.first;
      } else {
        child.order = 1;
        last = child.best_first = child.has_run() ? std::max(first, child.best_first) : range.last;
        child.best_last = range.last;
      }
    }
    for (Child& child : children) {
      const bool is_outside = child.best_first < first || child.best_last > last;
      if (child.order == 0 && is_outside) {
        child.best_first = child.best_last = std::clamp(child.best_first, first, last);
      }
    }
  }

  // The byte for a tag without content, before word `at`.
  size_t ByteBetween(size_t at, const Range& range, const Element& element) const {
    if (at == range.first) {
      return range.begin;
    }
    if (at == range.last) {
      return range.end;
    }
    return IsSpaceBefore(source_.text, element.begin) ? words_[at].begin : words_[at - 1].end;
  }

  // `as`: the number of the parent among the placed elements.
  void Place(int parent, int as, const Range& range) {
    const std::vector<int>& numbers = children_[static_cast<size_t>(parent + 1)];
    if (numbers.empty()) {
      return;
    }
    std::vector<Child> children(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      children[i].number = numbers[i];
    }
    FindRuns(parent, range, children);
    FindPlaces(range, children);
    PlaceHalves(range, children);
    std::stable_sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return std::make_tuple(a.order, a.best_first, a.has_run()) <
             std::make_tuple(b.order, b.best_first, b.has_run());
    });
    size_t at = range.begin;  // no child begins before the end of the last one
    for (const Child& child : children) {
      Element element = source_.elements[static_cast<size_t>(child.number)];
      Range inner = {child.best_first, child.best_last, 0, 0};
      if (child.has_run()) {
        inner.begin = std::max(at, words_[inner.first].begin);
        inner.end = std::max(inner.begin, words_[inner.last - 1].end);
      } else {
        inner.begin = inner.end = std::max(at, ByteBetween(inner.first, range, element));
        Separate(element, inner.begin);
      }
      element.begin = inner.begin;
      element.end = inner.end;
      element.parent = as;
      at = inner.end;
      placed_.elements.push_back(std::move(element));
      Place(child.number, static_cast<int>(placed_.elements.size()) - 1, inner);
    }
  }

  // Adds spaces around verbatim bytes where the source had them.
  void Separate(Element& element, size_t at) const {
    if (!element.is_verbatim || element.begin == element.end) {
      return;
    }
    const absl::string_view text = placed_.text;
    if (at > 0 && !IsSpaceBefore(text, at) && IsSpaceBefore(source_.text, element.begin)) {
      element.open = absl::StrCat(" ", element.open);
    }
    const bool is_apart = at == text.size() || IsSpace(text[at]);
    if (!is_apart && element.end < source_.text.size() && IsSpace(source_.text[element.end])) {
      element.open += ' ';
    }
  }

  const MarkedText& source_;
  const absl::Span<const Word> words_;
  std::vector<std::vector<int>> children_;  // of the root, then of each element; ascending
  std::vector<int> depths_;
  std::vector<int> labels_;
  MarkedText placed_;
};

}  // namespace

MarkedText CarryOver(const MarkedText& source, std::string target, absl::Span<const Word> words) {
  return Placing(source, std::move(target), words).Run();
}

std::string WriteMarked(const MarkedText& marked, bool escape) {
  const absl::string_view text = marked.text;
  std::string written;
  std::vector<const Element*> open;
  std::vector<int> numbers;
  size_t at = 0;
  const auto write_until = [&](size_t end) {
    AppendText(text.substr(at, end - at), escape, written);
    at = end;
  };
  const auto close_until = [&](int parent) {
    while (!numbers.empty() && numbers.back() != parent) {
      write_until(open.back()->end);
      written += open.back()->close;
      open.pop_back();
      numbers.pop_back();
    }
  };
  for (size_t i = 0; i < marked.elements.size(); ++i) {
    const Element& element = marked.elements[i];
    close_until(element.parent);
    write_until(element.begin);
    written += element.open;
    if (element.is_verbatim) {
      at = element.end;
      continue;
    }
    open.push_back(&element);
    numbers.push_back(static_cast<int>(i));
  }
  close_until(kRoot);
  write_until(text.size());
  return written;
}

}  // namespace beamwright::translate
