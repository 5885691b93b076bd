// Which tokens may follow a text under a grammar. The automaton reads bytes; a token is allowed if
// the automaton can read all its bytes from the text's state.
//
// A state of a text is one number (Pack): the automaton's state, whether the text begins here
// (tokens may write other bytes there), and whether the last token ended in a space (has_space),
// which counts only if another token follows.
//
// 1. Walk goes through the tree of all tokens by their bytes, so that a beginning that many tokens
//    share is read once, and a dead one skips all of them.
// 2. MaskOf keeps its result as one bit a token, for each state met; the end tokens are allowed
//    where the automaton accepts. Masks are dropped once they exceed kMaskBytes.
// 3. MaySpell, when a constraint is made, searches for some text that the vocabulary can spell. It
//    is bounded, and says yes where it did not find out.
#include "engine/grammar/constraint.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace beamwright::grammar {
namespace {

absl::string_view SliceOf(const std::string& bytes, const std::vector<uint32_t>& starts,
                          int32_t token) {
  const auto at = static_cast<size_t>(token);
  return absl::string_view(bytes).substr(starts[at], starts[at + 1] - starts[at]);
}

}  // namespace

TokenTexts::TokenTexts(int32_t count, const Writer& writer, bool drops_last_space)
    : has_space_(static_cast<size_t>(count), false) {
  std::string behind;
  for (int32_t token = 0; token < count; ++token) {
    std::string texts[2] = {writer(token, false), writer(token, true)};
    has_first_form_ = has_first_form_ || texts[0] != texts[1];
    const bool has_space = drops_last_space && absl::EndsWith(texts[0], " ");
    has_space_[static_cast<size_t>(token)] = has_space;
    for (size_t form = 0; form < 2; ++form) {
      std::string& text = texts[form];
      text.resize(text.size() - (has_space && absl::EndsWith(text, " ") ? 1 : 0));
      forms_[form].starts.push_back(static_cast<uint32_t>(forms_[form].bytes.size()));
      forms_[form].bytes += form == 1 && absl::StartsWith(text, " ") ? "" : text;
    }
  }
  for (size_t form = 0; form < (has_first_form_ ? 2 : 1); ++form) {
    forms_[form].starts.push_back(static_cast<uint32_t>(forms_[form].bytes.size()));
    forms_[form].tree = MakeTree(forms_[form], has_space_);
  }
  if (!has_first_form_) {
    forms_[1] = {};
  }
}

TokenTexts::Tree TokenTexts::MakeTree(const Form& form, const std::vector<bool>& has_space) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < has_space.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    if (has_space[i] || !SliceOf(form.bytes, form.starts, token).empty()) {
      order.push_back(token);
    }
  }
  const auto text = [&](int32_t token) { return SliceOf(form.bytes, form.starts, token); };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return text(a) != text(b) ? text(a) < text(b) : a < b; });
  Tree tree;
  tree.nodes.emplace_back();
  std::vector<uint32_t> path = {0};  // the nodes that the last token's bytes led to
  absl::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
    }
  };
  for (const int32_t token : order) {
    const absl::string_view own = text(token);
    const auto shared = static_cast<size_t>(
        std::mismatch(last.begin(), last.begin() + std::min(last.size(), own.size()), own.begin())
            .first -
        last.begin());
    close(shared);
    for (size_t depth = shared; depth < own.size(); ++depth) {
      Node node;
      node.byte = static_cast<uint8_t>(own[depth]);
      node.depth = static_cast<uint32_t>(depth + 1);
      node.first_token = node.tokens_end = static_cast<uint32_t>(tree.tokens.size());
      path.push_back(static_cast<uint32_t>(tree.nodes.size()));
      tree.nodes.push_back(node);
      tree.deepest = std::max(tree.deepest, node.depth);
    }
    tree.tokens.push_back(token);
    tree.nodes[path.back()].tokens_end = static_cast<uint32_t>(tree.tokens.size());
    last = own;
  }
  close(0);
  tree.nodes[0].end = static_cast<uint32_t>(tree.nodes.size());
  return tree;
}

bool TokenTexts::Find(int32_t token, bool begins, absl::string_view& text) const {
  if (token < 0 || token >= size()) {
    return false;
  }
  const Form& form = forms_[begins && has_first_form_ ? 1 : 0];
  text = SliceOf(form.bytes, form.starts, token);
  return !text.empty() || has_space(token);
}

namespace {

constexpr int64_t kBegins = 1;
constexpr int64_t kHasSpace = 2;
constexpr int kStateShift = 2;

// Of the search for some text that the vocabulary can spell.
constexpr size_t kMostStates = 1000;
constexpr int64_t kMostNodes = 1 << 20;
constexpr int64_t kMostTriedBytes = int64_t{1} << 20;  // of states: some milliseconds

}  // namespace

ConstrainedTexts::ConstrainedTexts(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), automaton_(constraint_->program_, constraint_->limits_) {
  const uint32_t deepest = std::max(texts().tree(false).deepest, texts().tree(true).deepest);
  path_.resize(size_t{deepest} + 1);
}

int64_t ConstrainedTexts::Pack(const Parts& parts) {
  return (int64_t{parts.state} << kStateShift) | (parts.begins ? kBegins : 0) |
         (parts.has_space ? kHasSpace : 0);
}

ConstrainedTexts::Parts ConstrainedTexts::Unpack(int64_t state) {
  return {static_cast<int32_t>(state >> kStateShift), (state & kBegins) != 0,
          (state & kHasSpace) != 0};
}

int64_t ConstrainedTexts::Start(bool begins_text) const {
  return Pack({automaton_.start(), begins_text, false});
}

int32_t ConstrainedTexts::From(const Parts& parts) {
  return parts.has_space ? automaton_.Step(parts.state, ' ') : parts.state;
}

int64_t ConstrainedTexts::Next(int64_t state, int32_t token) {
  const Parts parts = Unpack(state);
  absl::string_view text;
  if (absl::c_linear_search(constraint_->end_tokens_, token) ||
      !texts().Find(token, parts.begins, text)) {
    return Pack({});
  }
  int32_t next = From(parts);
  for (const char byte : text) {
    next = automaton_.Step(next, static_cast<uint8_t>(byte));
  }
  return Pack({next, false, texts().has_space(token)});
}

template <typename Take>
int64_t ConstrainedTexts::Walk(const Parts& parts, const Take& take) {
  const TokenTexts::Tree& tree = texts().tree(parts.begins);
  int64_t visited = 0;
  for (uint32_t at = 0; at < tree.nodes.size();) {
    const TokenTexts::Node& node = tree.nodes[at];
    const int32_t state = at == 0 ? From(parts) : automaton_.Step(path_[node.depth - 1], node.byte);
    ++visited;
    if (state == Automaton::kDead) {
      at = node.end;
      continue;
    }
    path_[node.depth] = state;
    for (uint32_t i = node.first_token; i < node.tokens_end; ++i) {
      const int32_t token = tree.tokens[i];
      if (!texts().has_space(token) || automaton_.Accepts(state) ||
          automaton_.Step(state, ' ') != Automaton::kDead) {
        take(token, state);
      }
    }
    ++at;
  }
  return visited;
}

const ConstrainedTexts::Mask& ConstrainedTexts::MaskOf(int64_t state) {
  if (const auto known = masks_.find(state); known != masks_.end()) {
    return known->second;
  }
  const int32_t last_end = *absl::c_max_element(constraint_->end_tokens_);
  const size_t words = (static_cast<size_t>(std::max(texts().size(), last_end + 1)) + 63) / 64;
  const auto mask_bytes = static_cast<int64_t>(words * sizeof(uint64_t) + 64);
  if ((static_cast<int64_t>(masks_.size()) + 1) * mask_bytes > Constraint::kMaskBytes) {
    masks_.clear();
  }
  Mask mask(words, 0);
  Walk(Unpack(state), [&](int32_t token, int32_t /*state*/) {
    mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  });
  for (const int32_t end : constraint_->end_tokens_) {
    const auto at = static_cast<size_t>(end);
    if (at / 64 < words) {
      const uint64_t bit = uint64_t{1} << (at % 64);
      mask[at / 64] =
          automaton_.Accepts(Unpack(state).state) ? mask[at / 64] | bit : mask[at / 64] & ~bit;
    }
  }
  return masks_.emplace(state, std::move(mask)).first->second;
}

void ConstrainedTexts::AppendAllowed(int64_t state, std::vector<int32_t>& tokens) {
  int32_t first = 0;
  for (uint64_t word : MaskOf(state)) {
    for (; word != 0; word &= word - 1) {
      tokens.push_back(first + __builtin_ctzll(word));
    }
    first += 64;
  }
}

bool ConstrainedTexts::IsComplete(int64_t state) const {
  return automaton_.Accepts(Unpack(state).state);
}

bool ConstrainedTexts::MaySpell(bool begins_text) {
  std::vector<int64_t> open = {Pack({automaton_.start(), begins_text, false})};
  absl::flat_hash_set<int64_t> seen(open.begin(), open.end());
  for (int64_t visited = 0; !open.empty();) {
    const Parts parts = Unpack(open.back());
    open.pop_back();
    if (automaton_.Accepts(parts.state) || visited > kMostNodes || seen.size() > kMostStates ||
        automaton_.num_bytes() > kMostTriedBytes) {
      return true;
    }
    visited += Walk(parts, [&](int32_t token, int32_t state) {
      const int64_t next = Pack({state, false, texts().has_space(token)});
      if (seen.size() <= kMostStates && seen.insert(next).second) {
        open.push_back(next);
      }
    });
  }
  return automaton_.is_full();
}

}  // namespace beamwright::grammar
