// Text of vocabularies with OpenNMT's joiner '￭', in which a token's text depends on its
// neighbours.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_JOINER_CODEC_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_JOINER_CODEC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/bundle/text_codec.h"

namespace beamwright::bundle {

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

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_JOINER_CODEC_H_
