// The text form of a SentencePiece model. Its normalisation is the model file's own.
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/bundle/byte_pieces.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/sentencepiece_model.h"
#include "engine/bundle/utf8.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

class SentencePieceCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new SentencePieceCodec);
    auto loaded = SentencePieceModel::Load(content);
    if (!loaded.ok()) {
      return Annotate(loaded.status(), absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
    }
    codec->model_ = *std::move(loaded);
    codec->lowercase_ = config.lowercase();
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->model_->Find(token); }));
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const absl::StatusOr<std::vector<int>> split = model_->Encode(lowered);
    if (!split.ok()) {
      return status::AtField(split.status(), "text");
    }
    const std::vector<int>& ids = *split;
    if (ids.empty()) {
      return status::InvalidField("text",
                                  "nothing is left of it after SentencePiece's normalisation");
    }
    EncodedText encoded = Begin();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != model_->unknown_id() && !IsSpecial(ids[i])) {
        encoded.ids.push_back(ids[i]);
        continue;
      }
      const std::vector<std::string> pieces =
          unknown_id_ < 0 ? model_->EncodePieces(lowered) : std::vector<std::string>();
      BW_RETURN_IF_ERROR(
          AppendUnknown(i < pieces.size() ? pieces[i] : std::string(), "piece", i, encoded));
    }
    return End(std::move(encoded));
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string text;
    std::vector<int> run;  // ids that the library may see
    const auto flush = [&] {
      text += run.empty() ? "" : model_->Decode(run);
      run.clear();
    };
    for (const int32_t id : ids) {
      if (IsSilent(id)) {
        continue;
      }
      if (id >= 0 && id < model_->size()) {
        run.push_back(id);
      } else {
        flush();
        absl::StrAppend(&text, "<", id, ">");
      }
    }
    flush();
    return text;
  }

  // As the library decodes it: '▁' is a space, <0xE6> a byte; control symbols write nothing.
  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    if (id < 0 || id >= model_->size()) {
      return absl::StrCat("<", id, ">");
    }
    const std::string piece = model_->Piece(id);
    if (const int byte = ByteOfPiece(piece); byte >= 0) {
      return std::string(1, static_cast<char>(byte));
    }
    const std::string alone = model_->Decode({id});
    if (is_first || !absl::StartsWith(piece, kWordBegin)) {
      return alone;
    }
    return absl::StrReplaceAll(piece, {{kWordBegin, " "}});
  }

  int32_t TokenId(const std::string& token) const override { return model_->Find(token); }

  std::string TokenText(int32_t id) const override {
    return id >= 0 && id < size() ? model_->Piece(id) : absl::StrCat("<", id, ">");
  }

  int size() const override { return model_->size(); }

 private:
  SentencePieceCodec() = default;

  bool lowercase_ = false;
  std::shared_ptr<const SentencePieceModel> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateSentencePieceCodec(const v1::TextConfig& config,
                                                                    const std::string& model) {
  return SentencePieceCodec::Create(config, model);
}

}  // namespace beamwright::bundle
