#include "engine/search/token_trie.h"

#include <algorithm>
#include <utility>

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

}  // namespace beamwright::search
