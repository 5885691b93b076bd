// What text forms share: special tokens, tokens whose characters stand for bytes or spaces, and
// cutting text into the tokens of a list. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "engine/bundle/text_codec.h"

namespace beamwright::bundle {

// CodecBase: what all text forms share: special tokens by their text, begin and end around a
// source, tokens left out of text.

class CodecBase : public TextCodec {
 protected:
  // Finds the ids of the special tokens that `config` names; `find` answers -1 for what is no
  // token. InvalidArgument naming each field whose token there is not, and an end token given
  // twice.
  absl::Status FindSpecialTokens(const v1::TextConfig& config,
                                 const std::function<int32_t(const std::string&)>& find);

  // For files that say how text is cut: InvalidArgument where `config` says it, too.
  static absl::Status CheckFileCuts(const v1::TextConfig& config);
  // InvalidArgument naming "text" where it is empty or no UTF-8.
  static absl::Status CheckText(absl::string_view text);

  // Begin, end, pad or unknown: no text may be read as one of these.
  bool IsSpecial(int32_t id) const;
  // Begin, end or pad: no text is written for these.
  bool IsSilent(int32_t id) const;

  // An EncodedText that starts with the begin token, if there is one.
  EncodedText Begin() const;
  // Appends the end token, if there is one.
  EncodedText End(EncodedText text) const;
  // Appends the unknown token for `piece`; InvalidArgument without one. position: of the piece
  // in the text, in what `unit` says.
  absl::Status AppendUnknown(absl::string_view piece, absl::string_view unit, size_t position,
                             EncodedText& text) const;
};

// All text forms but TEXT_FORM_SENTENCEPIECE.
absl::StatusOr<std::unique_ptr<TextCodec>> CreateTableCodec(const v1::TextConfig& config,
                                                            const std::string& vocabulary,
                                                            Vocabulary::Lines lines);
// Of TEXT_FORM_PIECES with another mark than '▁', or with pieces that are bytes.
absl::StatusOr<std::unique_ptr<TextCodec>> CreateMarkedCodec(const v1::TextConfig& config,
                                                             Vocabulary vocabulary);
absl::StatusOr<std::unique_ptr<TextCodec>> CreateSentencePieceCodec(const v1::TextConfig& config,
                                                                    const std::string& model);
// Of a tokenizer.json whose model is Unigram or WordPiece (piece_tokenizer.h).
absl::StatusOr<std::unique_ptr<TextCodec>> CreatePieceCodec(const v1::TextConfig& config,
                                                            const std::string& content);
// Of TEXT_FORM_PIECES with a file that says how text is cut (tokenizer_file.h).
absl::StatusOr<std::unique_ptr<TextCodec>> CreateTokenizerCodec(const v1::TextConfig& config,
                                                                const std::string& content);

// Tokens whose characters stand for bytes or spaces, and text of bytes.

// U+2581, where SentencePiece's pieces have a space.
inline constexpr absl::string_view kWordBegin = "\xE2\x96\x81";

// GPT-2 writes printable characters of Latin-1 as they are, and other bytes from U+0100 on.
char32_t GptCharacter(int byte);

// The byte that each of these characters stands for.
absl::flat_hash_map<char32_t, char> GptBytes();

// The bytes of a token whose characters stand for bytes; as it is, if one of them does not.
std::string BytesOfPiece(absl::string_view token, const absl::flat_hash_map<char32_t, char>& table);

// The byte of a piece such as <0xE6>; -1: it is no such piece.
int ByteOfPiece(absl::string_view piece);

// Appends the character in UTF-8.
void AppendUtf8(uint32_t code, std::string& text);

// Cutting text into the tokens of a list that says no more than what each token writes.

// The id of the token that writes this text; -1: no token does.
using TokenLookUp = absl::FunctionRef<int32_t(absl::string_view)>;

// The longest token with which `text` begins, at most `longest` bytes, and its size; -1: none.
int32_t LongestToken(absl::string_view text, size_t longest, TokenLookUp find, size_t& size);

// The fewest tokens that make up `text`, of as many the longer ones first. Empty if none do, or if
// finding out would take more than some million look-ups.
std::vector<int32_t> CutIntoFewest(absl::string_view text, size_t longest, TokenLookUp find);

// The longest tokens from the left, or, where they leave something over, the fewest.
std::vector<int32_t> CutText(absl::string_view text, size_t longest, TokenLookUp find);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_
