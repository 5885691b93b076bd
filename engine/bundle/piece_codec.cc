// Text by a tokenizer.json whose model is Unigram or WordPiece (piece_tokenizer.h). Unigram's
// tokens write a space for their mark, and bytes for <0xE6>; WordPiece's a space where a word
// begins.
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/bundle/byte_pieces.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/piece_tokenizer.h"
#include "engine/bundle/utf8.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

class PieceCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new PieceCodec);
    BW_RETURN_IF_ERROR(CheckFileCuts(config));
    auto pieces = PieceTokenizer::Parse(content);
    if (!pieces.ok()) {
      return Annotate(pieces.status(), absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
    }
    codec->pieces_ = *std::move(pieces);
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    if (codec->unknown_id_ < 0) {
      codec->unknown_id_ = codec->pieces_.unknown_id();
    }
    for (int32_t id = 0; id < codec->size(); ++id) {
      codec->skips_.push_back(codec->IsSilent(id));
    }
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::vector<PieceTokenizer::Piece> pieces = pieces_.Cut(text, skips_);
    if (pieces.empty()) {
      return status::InvalidField("text",
                                  "nothing is left of it after the tokenizer's normalisers");
    }
    EncodedText encoded = Begin();
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].first >= 0 && !skips_[static_cast<size_t>(pieces[i].first)]) {
        encoded.ids.push_back(pieces[i].first);
      } else {
        BW_RETURN_IF_ERROR(AppendUnknown(pieces[i].second, "piece", i, encoded));
      }
    }
    return End(std::move(encoded));
  }

  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    const std::string token = TokenText(id);
    if (pieces_.is_word_piece()) {
      const bool goes_on = token.size() > pieces_.continuation().size() &&
                           absl::StartsWith(token, pieces_.continuation());
      return goes_on ? token.substr(pieces_.continuation().size())
                     : absl::StrCat(is_first ? "" : " ", token);
    }
    if (const int byte = ByteOfPiece(token); byte >= 0) {
      return std::string(1, static_cast<char>(byte));
    }
    std::string text = absl::StrReplaceAll(token, {{kWordBegin, " "}});
    text.erase(0, is_first && absl::StartsWith(text, " ") ? 1 : 0);
    return text;
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string bytes;
    bool is_first = true;
    for (const int32_t id : ids) {
      bytes += Written(id, is_first);
      is_first = is_first && IsSilent(id);
    }
    return ValidUtf8(bytes);
  }

  int32_t TokenId(const std::string& token) const override { return pieces_.Find(token); }
  std::string TokenText(int32_t id) const override {
    const bool is_known =
        id >= 0 && id < size() && !pieces_.tokens()[static_cast<size_t>(id)].empty();
    return is_known ? pieces_.tokens()[static_cast<size_t>(id)] : absl::StrCat("<", id, ">");
  }
  int size() const override { return static_cast<int>(pieces_.tokens().size()); }

 private:
  PieceCodec() = default;

  PieceTokenizer pieces_;
  std::vector<bool> skips_;  // by id: begin, end and padding, which no text stands for
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreatePieceCodec(const v1::TextConfig& config,
                                                            const std::string& content) {
  return PieceCodec::Create(config, content);
}

}  // namespace beamwright::bundle
