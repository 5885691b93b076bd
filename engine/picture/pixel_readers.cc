// Pixels of PNG and JPEG files, by libpng and libjpeg. The head of the file was read before
// (PictureHead), and its size is within the limit; a library that finds another size fails the
// read.
//
// Both libraries report errors by longjmp. So the function that calls setjmp has no local object
// with a destructor, and everything that must be freed is in a struct of the caller (PngRead,
// JpegRead). Files are untrusted: PNG's chunks other than the pixels are skipped, scans of a
// progressive JPEG are limited, and a JPEG that ends early is an error instead of grey pixels.
#include "engine/picture/pixel_readers.h"

#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"

// clang-format off: jpeglib.h needs size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

#include <cstddef>
#include <cstdio>
// clang-format on

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

// All pictures become rows of RGBA, 8 bits each, whatever the file has: libpng expands palettes and
// grey, drops the lower half of 16 bits, and adds an opaque alpha.
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

namespace {

// Of a progressive file. Usual ones have ten.
constexpr int kMostScans = 64;

// The whole state of a read. libjpeg leaves its functions by longjmp, so the function that calls
// setjmp has no local object with a destructor.
struct JpegRead {
  JpegRead() = default;
  JpegRead(const JpegRead&) = delete;
  JpegRead& operator=(const JpegRead&) = delete;
  ~JpegRead() { jpeg_destroy_decompress(&jpeg); }

  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf jump = {};
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void OnJpegError(j_common_ptr common) {
  auto* const read = static_cast<JpegRead*>(common->client_data);
  (*common->err->format_message)(common, read->message);
  std::longjmp(read->jump, 1);
}

// Warnings come here with level -1. What is missing at the end would be filled with grey.
void OnJpegMessage(j_common_ptr common, int level) {
  const int code = common->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) {
    OnJpegError(common);
  }
}

void PrintNothing(j_common_ptr /*common*/) {}

void LimitScans(j_common_ptr common) {
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMostScans) {
    auto* const read = static_cast<JpegRead*>(common->client_data);
    std::snprintf(read->message, sizeof(read->message), "it has more than %d scans", kMostScans);
    std::longjmp(read->jump, 1);
  }
}

// Grey stays one channel, CMYK four; everything else becomes RGB.
bool ReadRows(JpegRead& read, absl::string_view file, const PictureHead& head, uint8_t* pixels) {
  jpeg_decompress_struct& jpeg = read.jpeg;
  jpeg.err = jpeg_std_error(&read.errors);
  read.errors.error_exit = OnJpegError;
  read.errors.emit_message = OnJpegMessage;
  read.errors.output_message = PrintNothing;
  jpeg.client_data = &read;
  if (setjmp(read.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&jpeg);
  read.progress.progress_monitor = LimitScans;
  jpeg.progress = &read.progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = head.channels == 1   ? JCS_GRAYSCALE
                         : head.channels == 4 ? JCS_CMYK
                                              : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  if (jpeg.output_width != head.width || jpeg.output_height != head.height ||
      jpeg.output_components != head.channels) {
    ERREXIT(&jpeg, JERR_CONVERSION_NOTIMPL);
  }
  const size_t row_bytes = static_cast<size_t>(head.width) * static_cast<size_t>(head.channels);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  return true;
}

}  // namespace

absl::Status ReadJpeg(absl::string_view file, const PictureHead& head, Picture& picture) {
  picture.pixels.resize(static_cast<size_t>(head.width * head.height * head.channels));
  JpegRead read;
  return ReadRows(read, file, head, picture.pixels.data())
             ? absl::OkStatus()
             : Invalid("the JPEG file is broken: ", read.message);
}

}  // namespace beamwright::picture
