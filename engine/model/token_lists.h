// Token lists: files of a bundle whose lines are the only answers that a request may allow.
#ifndef BEAMWRIGHT_ENGINE_MODEL_TOKEN_LISTS_H_
#define BEAMWRIGHT_ENGINE_MODEL_TOKEN_LISTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/bundle/text_codec.h"
#include "engine/search/token_trie.h"

namespace beamwright::engine {

// content: a target text a line; the last newline may be missing. end_tokens: what closes an entry:
// the target's, or the blank of a model that is searched by frames. InvalidArgument naming the
// line: it is empty, or has a token that the vocabulary lacks, or the blank. Lines that say the
// same count once.
absl::StatusOr<std::shared_ptr<const search::TokenTrie>> ReadTokenList(
    const std::string& content, const bundle::TextCodec& target,
    const std::vector<int32_t>& end_tokens);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_TOKEN_LISTS_H_
