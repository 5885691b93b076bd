// Picture: decoded pixels. Plain data.
#ifndef BEAMWRIGHT_ENGINE_PICTURE_PICTURE_H_
#define BEAMWRIGHT_ENGINE_PICTURE_PICTURE_H_

#include <cstdint>
#include <vector>

namespace beamwright::picture {

struct Picture {
  int width = 0;
  int height = 0;
  int channels = 0;             // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // [height, width, channels], the upper left pixel first
};

}  // namespace beamwright::picture

#endif  // BEAMWRIGHT_ENGINE_PICTURE_PICTURE_H_
