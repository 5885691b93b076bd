// TokenTrie: sets of token sequences, as a trie in two arrays. The nodes are numbered breadth
// first, so that the children of a node are neighbours: tokens_[n - 1] is the token of node n, and
// first_child_[n] the number of its first child. Children of a node are sorted, so Child is a
// binary search. An entry ends with any of the end tokens, which are children like others.
//
// StopStrings: which strings a hypothesis has written, by an automaton of Aho and Corasick over
// bytes. A state is one number: the automaton's node, whether a text has begun (the first token may
// be written without its space) and whether a string is complete. Next moves it by one token; Read
// follows all tokens of a hypothesis and gives the rest of the text from the string's begin on.
#include "engine/search/tries.h"

#include <algorithm>

#include "ops/base/check.h"

namespace beamwright::search {

TokenTrie::TokenTrie(std::vector<TokenSequence> entries, std::vector<int32_t> end_tokens)
    : end_tokens_(std::move(end_tokens)) {
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
  // A node is the range of entries that start with its tokens; empty behind an end token.
  using Range = std::pair<size_t, size_t>;
  std::vector<Range> level = {{0, entries.size()}};
  std::vector<Range> next;
  std::vector<std::pair<int32_t, Range>> children;
  for (size_t depth = 0; !level.empty(); ++depth) {
    next.clear();
    for (const Range& range : level) {
      first_child_.push_back(static_cast<uint32_t>(tokens_.size()) + 1);
      children.clear();
      size_t at = range.first;
      if (at < range.second && entries[at].size() == depth) {  // shorter entries sort first
        for (const int32_t token : end_tokens_) {
          children.push_back({token, {0, 0}});
        }
        ++at;
      }
      while (at < range.second) {
        const int32_t token = entries[at][depth];
        const size_t begin = at;
        while (at < range.second && entries[at][depth] == token) {
          ++at;
        }
        children.push_back({token, {begin, at}});
      }
      std::sort(children.begin(), children.end());
      for (const auto& [token, entries_below] : children) {
        tokens_.push_back(token);
        next.push_back(entries_below);
      }
    }
    level.swap(next);
  }
  first_child_.push_back(static_cast<uint32_t>(tokens_.size()) + 1);
  BW_CHECK(first_child_.size() == tokens_.size() + 2);
}

absl::Span<const int32_t> TokenTrie::Children(int64_t node) const {
  if (node == kNowhere) {
    return {};
  }
  const size_t n = static_cast<size_t>(node);
  const size_t begin = first_child_[n] - 1;
  return absl::MakeConstSpan(tokens_).subspan(begin, first_child_[n + 1] - first_child_[n]);
}

int64_t TokenTrie::Child(int64_t node, int32_t token) const {
  const absl::Span<const int32_t> children = Children(node);
  const auto it = std::lower_bound(children.begin(), children.end(), token);
  if (it == children.end() || *it != token) {
    return kNowhere;
  }
  return first_child_[static_cast<size_t>(node)] + (it - children.begin());
}

bool TokenTrie::IsEnd(int32_t token) const {
  return std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

bool TokenTrie::IsEntry(int64_t node) const {
  if (node == kNowhere) {
    return false;
  }
  const absl::Span<const int32_t> children = Children(node);
  return (node > 0 && IsEnd(tokens_[static_cast<size_t>(node) - 1])) ||
         std::any_of(children.begin(), children.end(), [&](int32_t token) { return IsEnd(token); });
}

namespace {

// What the token writes; begins_text is cleared by the first that would write behind others.
std::string Write(const StopStrings::Writer& writer, int32_t token, bool& begins_text) {
  std::string text = writer(token, begins_text);
  begins_text = begins_text && text.empty() && writer(token, false).empty();
  return text;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& strings, Writer writer)
    : writer_(std::move(writer)), nodes_(1) {
  std::vector<std::vector<std::pair<unsigned char, int32_t>>> children(1);
  for (const std::string& string : strings) {
    int32_t node = 0;
    for (const char c : string) {
      const auto [child, is_new] = children_.emplace(
          std::make_pair(node, static_cast<unsigned char>(c)), static_cast<int32_t>(nodes_.size()));
      if (is_new) {
        nodes_.push_back({0, nodes_[static_cast<size_t>(node)].depth + 1, 0});
        children[static_cast<size_t>(node)].push_back({c, child->second});
        children.emplace_back();
      }
      node = child->second;
    }
    nodes_[static_cast<size_t>(node)].longest = nodes_[static_cast<size_t>(node)].depth;
  }
  // Breadth first: the failures of shorter beginnings are known.
  std::vector<int32_t> order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t node = order[i];
    for (const auto& [byte, child] : children[static_cast<size_t>(node)]) {
      order.push_back(child);
      Node& own = nodes_[static_cast<size_t>(child)];
      own.failure = node == 0 ? 0 : Step(nodes_[static_cast<size_t>(node)].failure, byte);
      own.longest = std::max(own.longest, nodes_[static_cast<size_t>(own.failure)].longest);
    }
  }
}

int32_t StopStrings::Child(int32_t node, unsigned char byte) const {
  const auto child = children_.find(std::make_pair(node, byte));
  return child == children_.end() ? -1 : child->second;
}

int32_t StopStrings::Step(int32_t node, unsigned char byte) const {
  for (;; node = nodes_[static_cast<size_t>(node)].failure) {
    if (const int32_t child = Child(node, byte); child >= 0 || node == 0) {
      return std::max(child, 0);
    }
  }
}

int64_t StopStrings::Next(int64_t state, int32_t token) const {
  bool begins_text = (state & kBeginsText) != 0;
  auto node = static_cast<int32_t>(state >> kNodeShift);
  bool stops = false;
  for (const char c : Write(writer_, token, begins_text)) {
    node = Step(node, static_cast<unsigned char>(c));
    stops = stops || nodes_[static_cast<size_t>(node)].longest > 0;
  }
  return (int64_t{node} << kNodeShift) | (begins_text ? kBeginsText : 0) | (stops ? kStops : 0);
}

StopStrings::Ending StopStrings::Read(absl::Span<const int32_t> tokens, bool begins_text) const {
  Ending ending;
  int32_t node = 0;
  // While no string is complete, `rest` is all that was written.
  for (const int32_t token : tokens) {
    for (const char c : Write(writer_, token, begins_text)) {
      ending.rest.push_back(c);
      if (ending.stops) {
        continue;
      }
      node = Step(node, static_cast<unsigned char>(c));
      if (const int32_t size = nodes_[static_cast<size_t>(node)].longest; size > 0) {
        ending.stops = true;
        ending.rest.erase(0, ending.rest.size() - static_cast<size_t>(size));
      }
    }
  }
  if (!ending.stops) {
    const auto begun = static_cast<size_t>(nodes_[static_cast<size_t>(node)].depth);
    ending.rest.erase(0, ending.rest.size() - begun);
  }
  return ending;
}

}  // namespace beamwright::search
