// TextCodec: one side of a model, text to token ids and back, in the form that model.textproto
// names.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_TEXT_CODEC_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_TEXT_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "ops/base/vocabulary.h"

namespace beamwright::bundle {

struct EncodedText {
  std::vector<int32_t> ids;
  // Positions in `ids` that hold the unknown token.
  std::vector<int32_t> unknown_positions;
  // The first of them that stands for text which the vocabulary lacks; -1: all of them were spelled
  // as the unknown token is written.
  int32_t first_missing = -1;
  // That text is how the vocabulary writes a begin, end or pad token, which no text stands for.
  bool missing_is_special = false;
};

// Thread-safe after Create.
class TextCodec {
 public:
  // `vocabulary`: content of config.vocabulary (empty where the form needs none). InvalidArgument
  // naming the line or field: empty or duplicate tokens, special tokens that the vocabulary lacks,
  // a form without its vocabulary. With `lines` kColumns, which models of speech and those that
  // search by frames have, tokens may be empty and share a text.
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(
      const v1::TextConfig& config, const std::string& vocabulary,
      Vocabulary::Lines lines = Vocabulary::Lines::kDistinct);
  virtual ~TextCodec() = default;

  // Whatever Decode writes of known tokens that are not special is read as tokens, if not as the
  // same ones. InvalidArgument: empty text, text in a form without text, a piece that the
  // vocabulary lacks where there is no unknown token (naming the piece and its position). Begin and
  // end tokens are added if configured.
  virtual absl::StatusOr<EncodedText> Encode(absl::string_view text) const = 0;
  // The same without begin and end tokens, and where every piece must be in the vocabulary: text
  // that stands for part of a sequence.
  absl::StatusOr<std::vector<int32_t>> EncodePart(absl::string_view text) const;
  // Text of ids without begin, end and pad tokens. An id outside the vocabulary prints as "<id>".
  virtual std::string Decode(absl::Span<const int32_t> ids) const = 0;

  // The bytes that an id adds to a text behind others, or (is_first) where it begins one: Decode
  // writes these of all ids, U+FFFD for bytes that are no character, and in some forms without a
  // space at its end.
  virtual std::string Written(int32_t id, bool is_first) const = 0;
  // The same behind the last id that is not begin, end or pad; -1: the text begins.
  virtual std::string WrittenBehind(int32_t id, int32_t before) const {
    return Written(id, before < 0);
  }
  // Decode without what was written from some place on; `rest`: the bytes from there on.
  std::string DecodeBefore(absl::Span<const int32_t> ids, absl::string_view rest) const;

  // The id of a token by its text in the vocabulary (without one, a number), special tokens
  // included; -1 if there is no such token.
  virtual int32_t TokenId(const std::string& token) const = 0;

  // The other way: a token as the vocabulary writes it; as Decode where the id is outside.
  virtual std::string TokenText(int32_t id) const = 0;

  // Number of ids; 0 where the side has no vocabulary.
  virtual int size() const = 0;
  // Ids of the configured special tokens; -1 where not configured.
  int begin_id() const { return begin_id_; }
  int pad_id() const { return pad_id_; }
  int unknown_id() const { return unknown_id_; }
  const std::vector<int32_t>& end_ids() const { return end_ids_; }

 protected:
  int begin_id_ = -1;
  int pad_id_ = -1;
  int unknown_id_ = -1;
  std::vector<int32_t> end_ids_;
};

// Text of vocabularies with OpenNMT's joiner '￭', in which a token's text depends on its
// neighbours.

// Whether two tokens or more have a joiner and none has SentencePiece's mark, in a form of pieces
// whose mark is not another one.
bool HasJoiners(const v1::TextConfig& config, const Vocabulary& vocabulary);

// Of such a vocabulary. InvalidArgument: special tokens that it lacks, white space in a token.
absl::StatusOr<std::unique_ptr<TextCodec>> CreateJoinerCodec(const v1::TextConfig& config,
                                                             Vocabulary vocabulary);

// Whether a codec is one of these: TextCodec::Written then gives the bytes behind a token that does
// not join, so that stop strings and models of words cannot rely on it.
bool IsJoinerCodec(const TextCodec& codec);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_TEXT_CODEC_H_
