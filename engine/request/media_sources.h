// Sources that are files of pictures or of sound: limits and costs before they are decoded, and
// what the encoder reads of them.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_MEDIA_SOURCES_H_
#define BEAMWRIGHT_ENGINE_REQUEST_MEDIA_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// Pictures of requests: limits and costs before they are decoded, and the encoder's input.

// Most bytes that PrepareSource holds while it decodes the source's picture; 0: the source has
// none, or one that is refused by its head.
int64_t PictureBytes(const DecodeModel& model, const v1::Source& source);

// `file` as the encoder's Parameter, f32 [1, ., ., .]. Faults name the field source.picture.
// most_columns: more are refused before anything is decoded.
absl::StatusOr<ops::Tensor> PictureSource(const DecodeModel& model, absl::string_view file,
                                          int most_columns);

// A complete sound as the source that a model's encoder reads.

// features: all that a FrontEndStream of the model's `sound` appended, at least a frame. As the
// encoder's Parameter: [1, frames, width], [1, width, frames] where its length is axis 2, or [1,
// samples].
ops::Tensor SoundSource(const DecodeModel& model, std::vector<float> features);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_MEDIA_SOURCES_H_
