// How a picture becomes what a model's encoder reads.
#ifndef BEAMWRIGHT_ENGINE_MODEL_COMPILE_PICTURE_H_
#define BEAMWRIGHT_ENGINE_MODEL_COMPILE_PICTURE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "engine/model/parts.h"
#include "engine/picture/front_end.h"

namespace beamwright::engine {

// The input that the bundle's `picture` asks for, its open fields set from the encoder's input.
// Nothing without it. InvalidArgument naming the field that is wrong, or if the encoder does not
// read pictures.
absl::StatusOr<std::optional<picture::FrontEnd>> CompilePicture(const v1::ModelConfig& config,
                                                                const EncoderPart* encoder);

// Which axis of an encoder's input of four axes is which: channels are an extent of 1 or 3, of
// `channels` if that is not 0, the first one where two are; the width is the axis along which the
// source's length counts, else the later one.
picture::Axes PictureAxes(const ops::PartialShape& shape, int channels, int length_axis);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_COMPILE_PICTURE_H_
