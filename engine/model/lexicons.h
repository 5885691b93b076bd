// Tables of words and tokens: which target tokens a source token may become, and lexicons that
// spell their words in tokens.
#ifndef BEAMWRIGHT_ENGINE_MODEL_LEXICONS_H_
#define BEAMWRIGHT_ENGINE_MODEL_LEXICONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/text_codec.h"
#include "engine/fusion/row_scorers.h"

namespace beamwright::engine {

// LexicalTable: which target tokens a source token may become. A request that asks for it chooses
// among those of its source's tokens, and the most frequent ones; never among its batch's.

// Immutable and thread-safe. 2 bytes an entry, or 4 with more than 65,536 target tokens.
class LexicalTable {
 public:
  // content: of the file that `config` names; target_size: tokens that the decoder chooses from.
  // A text of lines, or a binary shortlist of Marian, which holds
  // the number of frequent tokens. InvalidArgument, of a text naming the line: not two or three
  // fields, a token that a vocabulary lacks, a
  // probability that is not a finite number. A pair that is there twice counts once, with its first
  // probability's place; without probabilities lines count in their order.
  static absl::StatusOr<std::shared_ptr<const LexicalTable>> Read(
      absl::string_view content, const v1::LexicalTableConfig& config,
      const bundle::TextCodec& source, const bundle::TextCodec& target, int target_size);

  // Target tokens for a source of these ids: ascending, distinct, frequent ones included. By a
  // binary shortlist they are those that Marian opens to this source alone: where both vocabularies
  // are the same the source's own tokens, too, and then the next tokens behind the frequent ones
  // until their number is a multiple of 8.
  std::vector<int32_t> Shortlist(absl::Span<const int32_t> source_ids) const;

 private:
  LexicalTable() = default;
  static absl::StatusOr<std::shared_ptr<const LexicalTable>> ReadBinary(
      absl::string_view content, const v1::LexicalTableConfig& config,
      const bundle::TextCodec& source, const bundle::TextCodec& target, int target_size);
  void SetTargets(std::vector<int32_t> targets, int target_size);

  bool is_binary_ = false;
  bool is_shared_ = false;  // is_binary_: a source's tokens are target tokens, too
  int target_size_ = 0;
  int num_frequent_ = 0;
  // Target tokens of sources_[i]: those at starts_[i] to starts_[i + 1] - 1 of the list of targets
  // that is not empty.
  std::vector<int32_t> sources_;  // ascending
  std::vector<size_t> starts_;
  std::vector<uint16_t> short_targets_;
  std::vector<int32_t> long_targets_;
};

// Lexicons that spell their words in tokens, as flashlight-text's: "hello ▁he llo", "cat K AE T |".

// A lexicon whose letters are tokens: fusion::Lexicon reads a code of each token in the place of
// its text, with a space where the token begins or ends a word.
struct SpelledLexicon {
  std::vector<std::string> words;  // spellings in codes
  fusion::WordTokens tokens;       // without ends
  int64_t num_left_out = 0;        // lines with what is no token, or without spelling
};

// content: a line for each spelling: the word, then its tokens. token_of: -1 of what is no token.
// is_silent: tokens that belong to no word and may be anywhere, as the blank.
//
// Nothing if fewer than half of the lines are such, or if the borders of words cannot be seen: all
// spellings end with one token that is nowhere else, or no token that ends one is inside another,
// or no token that begins one is inside another.
std::optional<SpelledLexicon> ReadSpelledLexicon(
    absl::string_view content, int32_t num_tokens,
    const std::function<int32_t(absl::string_view)>& token_of,
    const std::function<bool(int32_t)>& is_silent);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_LEXICONS_H_
