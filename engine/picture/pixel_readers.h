// The libraries' side of picture_file.h. Private to engine/picture/.
#ifndef BEAMWRIGHT_ENGINE_PICTURE_PIXEL_READERS_H_
#define BEAMWRIGHT_ENGINE_PICTURE_PIXEL_READERS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/picture/picture_file.h"

namespace beamwright::picture {

// Both set picture.pixels, [height, width, head.channels]; the other fields of `picture` are set by
// the caller. InvalidArgument: the file is cut off or broken.

// libpng. Pixels are red, green, blue, alpha.
absl::Status ReadPng(absl::string_view file, const PictureHead& head, Picture& picture);

// libjpeg-turbo. Pixels are grey, or red, green, blue, or CMYK as Adobe stores it: 255 is no ink.
absl::Status ReadJpeg(absl::string_view file, const PictureHead& head, Picture& picture);

}  // namespace beamwright::picture

#endif  // BEAMWRIGHT_ENGINE_PICTURE_PIXEL_READERS_H_
