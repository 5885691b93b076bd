// CodecBase: what all text forms share: special tokens by their text, begin and end around a
// source, tokens left out of text. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_

#include <functional>
#include <string>

#include "engine/bundle/text_codec.h"

namespace beamwright::bundle {

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

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_CODEC_BASE_H_
