#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/picture/pixel_readers.h"
#include "ops/base/status.h"

namespace beamwright::picture {
namespace {

// The whole state of a read. libpng leaves its functions by longjmp, so the function that calls
// setjmp has no local object with a destructor.
struct PngRead {
  explicit PngRead(absl::string_view bytes) : rest(bytes) {}
  PngRead(const PngRead&) = delete;
  PngRead& operator=(const PngRead&) = delete;
  ~PngRead() { png_destroy_read_struct(&png, &info, nullptr); }

  absl::string_view rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = "";
};

[[noreturn]] void OnPngError(png_structp png, png_const_charp message) {
  auto* const read = static_cast<PngRead*>(png_get_error_ptr(png));
  std::snprintf(read->message, sizeof(read->message), "%s", message);
  png_longjmp(png, 1);
}

void OnPngWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  auto* const read = static_cast<PngRead*>(png_get_io_ptr(png));
  if (count > read->rest.size()) {
    png_error(png, "the file is cut off");
  }
  std::memcpy(out, read->rest.data(), count);
  read->rest.remove_prefix(count);
}

bool ReadRows(PngRead& read, uint8_t* pixels, size_t width, size_t height) {
  if (setjmp(png_jmpbuf(read.png)) != 0) {
    return false;
  }
  png_set_read_fn(read.png, &read, ReadBytes);
  png_set_user_limits(read.png, kMostSide, kMostSide);
  // Only the chunks of the pixels: no text, profile or suggested palette is unpacked.
  png_set_keep_unknown_chunks(read.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(read.png, read.info);
  png_set_expand(read.png);
  png_set_strip_16(read.png);
  png_set_gray_to_rgb(read.png);
  png_set_add_alpha(read.png, 255, PNG_FILLER_AFTER);
  const int passes = png_set_interlace_handling(read.png);
  png_read_update_info(read.png, read.info);
  const size_t row_bytes = 4 * width;
  if (png_get_rowbytes(read.png, read.info) != row_bytes ||
      png_get_image_height(read.png, read.info) != height) {
    png_error(read.png, "the size of the pixels is not that of the head");
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t row = 0; row < height; ++row) {
      png_read_row(read.png, pixels + row * row_bytes, nullptr);
    }
  }
  return true;
}

}  // namespace

absl::Status ReadPng(absl::string_view file, const PictureHead& head, Picture& picture) {
  PngRead read(file);
  read.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &read, OnPngError, OnPngWarning);
  read.info = read.png == nullptr ? nullptr : png_create_info_struct(read.png);
  if (read.info == nullptr) {
    return absl::ResourceExhaustedError("no memory to read a PNG file");
  }
  const auto width = static_cast<size_t>(head.width);
  const auto height = static_cast<size_t>(head.height);
  picture.pixels.resize(4 * width * height);
  return ReadRows(read, picture.pixels.data(), width, height)
             ? absl::OkStatus()
             : Invalid("the PNG file is broken: ", read.message);
}

}  // namespace beamwright::picture
