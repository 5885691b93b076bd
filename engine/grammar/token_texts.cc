#include "engine/grammar/token_texts.h"

#include <algorithm>
#include <string>

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

}  // namespace beamwright::grammar
