// Pictures of requests: limits and costs before they are decoded, and the encoder's input.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_PICTURE_SOURCE_H_
#define BEAMWRIGHT_ENGINE_REQUEST_PICTURE_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// Most bytes that PrepareSource holds while it decodes the source's picture; 0: the source has
// none, or one that is refused by its head.
int64_t PictureBytes(const DecodeModel& model, const v1::Source& source);

// `file` as the encoder's Parameter, f32 [1, ., ., .]. Faults name the field source.picture.
// most_columns: more are refused before anything is decoded.
absl::StatusOr<ops::Tensor> PictureSource(const DecodeModel& model, absl::string_view file,
                                          int most_columns);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_PICTURE_SOURCE_H_
