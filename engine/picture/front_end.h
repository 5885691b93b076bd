// FrontEnd: a picture as what an encoder reads, as the package that trained the model prepares it:
// grey or colour, resized to the encoder's height, scaled, and filled up on the right.
#ifndef BEAMWRIGHT_ENGINE_PICTURE_FRONT_END_H_
#define BEAMWRIGHT_ENGINE_PICTURE_FRONT_END_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "engine/picture/picture_file.h"
#include "ops/tensor/tensor.h"

namespace beamwright::picture {

// Which axes of the encoder's input [rows, ., ., .] are a picture's: 1, 2 and 3 in some order.
struct Axes {
  int channels = 1;
  int height = 2;
  int width = 3;
};

// Which axis of an encoder's input of four axes is which: channels are an extent of 1 or 3, of
// `channels` if that is not 0, the first one where two are; the width is the axis along which the
// source's length counts, else the later one.
Axes PictureAxes(const ops::PartialShape& shape, int channels, int length_axis);

// Immutable.
class FrontEnd {
 public:
  // `config` without fields that are open: height and channels are set, and width unless the
  // picture's own ratio gives it. InvalidArgument naming the field that is wrong.
  static absl::StatusOr<FrontEnd> Create(const v1::PictureConfig& config, const Axes& axes);

  const v1::PictureConfig& config() const { return config_; }
  const Axes& axes() const { return axes_; }
  // Columns of the encoder's input for a picture of width * height pixels.
  int64_t Columns(int64_t width, int64_t height) const;
  // f32 [1, ., ., .] by the axes. The picture has one or three channels.
  ops::Tensor Values(Picture picture) const;

 private:
  // How many of the columns the picture covers, and how many there are.
  struct Extents {
    int64_t covered = 0;
    int64_t all = 0;
  };
  FrontEnd(const v1::PictureConfig& config, const Axes& axes) : config_(config), axes_(axes) {}
  Extents ExtentsOf(int64_t width, int64_t height) const;
  // What is written behind the picture, of a channel whose last pixel in the row is `last`.
  float Filling(size_t channel, float last) const;

  v1::PictureConfig config_;
  Axes axes_;
  std::vector<std::array<float, 256>> values_;  // of each channel and grey level
};

// Resizing to the pixels of the library that a model's training used.

// The mean of red, green and blue by luma, as Pillow's convert("L"). `picture`: 3 channels, or 1,
// which stays.
void ToGrey(Picture& picture);

// `picture` with width * height pixels, at least one each. PICTURE_FILTER_LINEAR: INTER_LINEAR of
// OpenCV, which reads two pixels on either axis however much smaller the picture becomes. The
// others: Pillow's, whose windows grow with the factor. Memory beyond the result: some rows of it,
// and four bytes for each of its values.
Picture Resize(const Picture& picture, int width, int height, v1::PictureFilter filter);

}  // namespace beamwright::picture

#endif  // BEAMWRIGHT_ENGINE_PICTURE_FRONT_END_H_
