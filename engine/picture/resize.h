// Resizing to the pixels of the library that a model's training used.
#ifndef BEAMWRIGHT_ENGINE_PICTURE_RESIZE_H_
#define BEAMWRIGHT_ENGINE_PICTURE_RESIZE_H_

#include "beamwright/v1/model.pb.h"
#include "engine/picture/picture.h"

namespace beamwright::picture {

// The mean of red, green and blue by luma, as Pillow's convert("L"). `picture`: 3 channels, or 1,
// which stays.
void ToGrey(Picture& picture);

// `picture` with width * height pixels, at least one each. PICTURE_FILTER_LINEAR: INTER_LINEAR of
// OpenCV, which reads two pixels on either axis however much smaller the picture becomes. The
// others: Pillow's, whose windows grow with the factor. Memory beyond the result: some rows of it,
// and four bytes for each of its values.
Picture Resize(const Picture& picture, int width, int height, v1::PictureFilter filter);

}  // namespace beamwright::picture

#endif  // BEAMWRIGHT_ENGINE_PICTURE_RESIZE_H_
