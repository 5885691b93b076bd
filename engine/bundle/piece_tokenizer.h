// PieceTokenizer: a tokenizer.json whose model cuts words into pieces of characters: Unigram
// (Kudo 2018; T5, XLM-R), the most probable pieces, and WordPiece (BERT), the longest ones from the
// left. Text goes through normalisers, is split into words, and each word is cut. Private to
// bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_PIECE_TOKENIZER_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_PIECE_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/bundle/tokenizer_file.h"

namespace beamwright::bundle {

// The normalisers of a tokenizer.json: what becomes of text before it is cut.

// Thread-safe.
class Normaliser {
 public:
  // normaliser: null: text stays as it is. InvalidArgument naming what is not read: others than
  // BertNormalizer, Lowercase, StripAccents, NFD before it, Replace, Prepend, Strip, Precompiled
  // (SentencePiece's charsmap) and NFC, as which text is taken.
  static absl::StatusOr<Normaliser> Read(const Json* normaliser);

  // text: UTF-8.
  std::string Apply(absl::string_view text) const;

 private:
  using Step = std::function<std::string(absl::string_view)>;

  static absl::StatusOr<std::vector<Step>> StepsOf(const Json& one, bool strips_next);

  std::vector<Step> steps_;
};

// What the package's pre-tokenizers hold for it.
bool IsWhiteSpace(char32_t c);
bool IsPunctuation(char32_t c);

// Thread-safe after Parse.
class PieceTokenizer {
 public:
  struct Added {
    std::string text;
    int32_t id = 0;
    // White space before and behind it, which it takes in.
    bool takes_left = false;
    bool takes_right = false;
    bool normalised = false;  // it is looked for in normalised text
  };
  // A piece of text; id -1: no token stands for it.
  using Piece = std::pair<int32_t, std::string>;

  // Whether the file's model is one of these.
  static bool IsFor(absl::string_view content);
  // InvalidArgument naming the member, and what is not read.
  static absl::StatusOr<PieceTokenizer> Parse(absl::string_view content);

  // skips: ids that no text stands for. text: UTF-8.
  std::vector<Piece> Cut(absl::string_view text, const std::vector<bool>& skips) const;

  // By id; empty: no token has it.
  const std::vector<std::string>& tokens() const { return tokens_; }
  int32_t Find(absl::string_view token) const;
  int32_t unknown_id() const { return unknown_id_; }
  bool is_word_piece() const { return is_word_piece_; }
  const std::string& continuation() const { return continuation_; }

 private:
  enum class Prepend : uint8_t { kNever, kFirst, kAlways };
  // One way to split text into words, after the ones before.
  struct Split {
    bool is_metaspace = false;    // else white space is removed, and
    bool at_punctuation = false;  // each sign is a word
    std::string mark;             // of a metaspace, like the next two
    Prepend prepend = Prepend::kAlways;
    bool splits = true;
  };
  struct Word {
    std::string text;
    bool is_first = false;  // of all text
  };

  absl::Status ReadTokens(const Json& document);
  absl::Status ReadModel(const Json& model);
  absl::Status ReadSplits(const Json& document);
  absl::Status SetToken(absl::string_view text, int64_t id, const char* where);

  // The longest added token that text begins with; null: none.
  const Added* AddedAt(absl::string_view text, bool normalised,
                       const std::vector<bool>& skips) const;
  void CutNormalised(absl::string_view text, bool is_first, const std::vector<bool>& skips,
                     std::vector<Piece>& pieces) const;
  void CutWords(absl::string_view text, bool is_first, std::vector<Piece>& pieces) const;
  static void SplitWord(const Split& split, const Word& word, std::vector<Word>& words);
  void CutLongest(const std::string& word, std::vector<Piece>& pieces) const;
  void CutLikeliest(const std::string& word, std::vector<Piece>& pieces) const;

  Normaliser normaliser_;
  std::vector<Split> splits_;
  std::vector<Added> added_;  // longer ones first
  std::vector<std::string> tokens_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  bool is_word_piece_ = false;
  std::string continuation_;       // "##"
  int64_t most_characters_ = 100;  // of a word that is cut
  std::vector<double> scores_;     // of Unigram, by id
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
  int32_t unknown_id_ = -1;
  size_t longest_ = 0;  // token, in bytes
  size_t most_ids_ = 0;
};

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_PIECE_TOKENIZER_H_
