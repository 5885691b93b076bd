// Pictures as clients send them: a file of any content, prepared for an encoder of some shape. What
// is decoded has the size of the file's head, and the encoder's input the columns that were
// announced, all of them finite.
//
// An input is a head of eight bytes (Head) and the file. The checksums of a PNG file's chunks are
// mended first, which made-up bytes would hardly meet.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "engine/picture/front_end.h"
#include "engine/picture/picture_file.h"
#include "ops/base/check.h"

namespace beamwright::picture {
namespace {

constexpr int64_t kMostPixels = 1 << 18;  // of what is decoded: the limit of time is per input

struct Head {
  uint8_t flags;   // 1: colour, 2: blue first, 4: keep_ratio, 8: the width is open
  uint8_t height;  // of the encoder's input, less 1
  uint8_t width;
  uint8_t pad;
  uint8_t filter;
  uint8_t mean;  // of 255
  uint8_t scale;
  uint8_t layout;  // 0: channels first, else last
};
static_assert(sizeof(Head) == 8);

absl::StatusOr<FrontEnd> FrontEndOf(const Head& head) {
  v1::PictureConfig config;
  config.set_channels((head.flags & 1) != 0 ? 3 : 1);
  config.set_order(static_cast<v1::PictureOrder>((head.flags & 2) / 2));
  config.set_keep_ratio((head.flags & 4) != 0);
  config.set_height(1 + head.height);
  const bool is_open = (head.flags & 8) != 0;
  config.set_width(is_open ? 0 : 1 + head.width);
  config.set_min_width(is_open ? head.width : 0);
  config.set_pad(static_cast<v1::PicturePad>(head.pad % v1::PicturePad_ARRAYSIZE));
  config.set_filter(static_cast<v1::PictureFilter>(head.filter % v1::PictureFilter_ARRAYSIZE));
  config.add_mean(static_cast<float>(head.mean) / 255);
  config.add_scale(head.scale);
  return FrontEnd::Create(config, head.layout == 0 ? Axes{1, 2, 3} : Axes{3, 1, 2});
}

void MendChecksums(std::string& file) {
  constexpr size_t kMark = 8;
  for (size_t at = kMark; absl::StartsWith(file, "\x89PNG") && at + 12 <= file.size();) {
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) {
      size = size << 8 | static_cast<unsigned char>(file[at + i]);
    }
    if (size > file.size() - at - 12) {
      return;
    }
    const uint64_t sum = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + at + 4, 4 + size);
    for (size_t i = 0; i < 4; ++i) {
      file[at + 8 + size + i] = static_cast<char>(sum >> (24 - 8 * i));
    }
    at += 12 + size;
  }
}

void Look(const Head& given, std::string file) {
  MendChecksums(file);
  const auto front_end = FrontEndOf(given);
  const absl::StatusOr<PictureHead> head = ReadHead(file);
  if (!front_end.ok() || !head.ok() || head->width * head->height > kMostPixels) {
    return;
  }
  const absl::StatusOr<Picture> picture = Decode(file, *head);
  const int64_t columns = front_end->Columns(head->displayed_width(), head->displayed_height());
  if (!picture.ok() || columns > kMostPixels / front_end->config().height()) {
    return;
  }
  BW_CHECK(picture->width == head->displayed_width());
  BW_CHECK(picture->height == head->displayed_height());
  BW_CHECK(static_cast<int64_t>(picture->pixels.size()) ==
           head->width * head->height * picture->channels);
  const ops::Tensor values = front_end->Values(*picture);
  BW_CHECK(values.dim(front_end->axes().width) == columns);
  BW_CHECK(std::all_of(values.data<float>(), values.data<float>() + values.num_elements(),
                       [](float value) { return std::isfinite(value); }));
}

}  // namespace
}  // namespace beamwright::picture

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::picture::Head head;
  if (size < sizeof(head)) {
    return 0;
  }
  std::memcpy(&head, data, sizeof(head));
  beamwright::picture::Look(
      head, std::string(reinterpret_cast<const char*>(data) + sizeof(head), size - sizeof(head)));
  return 0;
}
