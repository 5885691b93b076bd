// PNG and JPEG files as pixels. A client wrote the file: sizes are read from its head and checked
// before anything is allocated.
//
// Pixels are those of OpenCV and Pillow: 8 bits a channel (of 16 bits the upper 8), palettes
// resolved, colours not adjusted by gamma or profile. Transparent pixels are laid over white. EXIF
// orientation is applied. CMYK is converted as Pillow converts it.
#ifndef BEAMWRIGHT_ENGINE_PICTURE_PICTURE_FILE_H_
#define BEAMWRIGHT_ENGINE_PICTURE_PICTURE_FILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace beamwright::picture {

// Picture: decoded pixels. Plain data.

struct Picture {
  int width = 0;
  int height = 0;
  int channels = 0;             // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels], the upper left pixel first
};

// Of either side of a picture: libjpeg's own limit.
inline constexpr int kMostSide = 65500;

enum class FileKind { kPng, kJpeg };

// What a file says of itself before its pixels.
struct PictureHead {
  FileKind kind = FileKind::kPng;
  int64_t width = 0;  // as stored: orientation is not applied
  int64_t height = 0;
  int orientation = 1;  // of EXIF, 1 to 8; 5 to 8 exchange width and height
  // JPEG: the file has several scans (progressive), so all coefficients are in memory at once.
  bool has_scans = false;
  int channels = 4;  // as the file is decoded, before transparency and CMYK are resolved

  int64_t displayed_width() const { return orientation >= 5 ? height : width; }
  int64_t displayed_height() const { return orientation >= 5 ? width : height; }
};

// InvalidArgument: neither PNG nor JPEG, a head that is cut off or broken, a side of 0 or more than
// kMostSide pixels.
absl::StatusOr<PictureHead> ReadHead(absl::string_view file);

// Most bytes that Decode holds at once.
int64_t DecodeBytes(const PictureHead& head);

// `head`: that of `file`. InvalidArgument: the file is cut off, broken, or of a kind that is not
// read (12 bits a channel, lossless JPEG). Time: linear in pixels; a JPEG has 64 scans at most.
absl::StatusOr<Picture> Decode(absl::string_view file, const PictureHead& head);

}  // namespace beamwright::picture

#endif  // BEAMWRIGHT_ENGINE_PICTURE_PICTURE_FILE_H_
