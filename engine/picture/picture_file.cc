// Reads PNG and JPEG files. A picture comes from outside, so that its size is known before memory
// is taken for its pixels:
//
// 1. ReadHead reads kind, width, height, channels and orientation from the head of the file
//    (PngHead: chunks; JpegHead: markers), without decoding. Both walk with checked lengths.
// 2. DecodeBytes says how much memory decoding will take, so that the caller can account for it: a
//    progressive JPEG needs all its coefficients at once.
// 3. Decode reads the pixels (ReadPng, ReadJpeg), then ResolveFourth puts transparent pixels on
//    white and turns CMYK into RGB, and ApplyOrientation turns the picture as the camera's EXIF tag
//    says.
#include "engine/picture/picture_file.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
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

// Both set picture.pixels, [height, width, head.channels]; the other fields of `picture` are set by
// the caller. InvalidArgument: the file is cut off or broken.

// libpng. Pixels are red, green, blue, alpha.
absl::Status ReadPng(absl::string_view file, const PictureHead& head, Picture& picture);

// libjpeg-turbo. Pixels are grey, or red, green, blue, or CMYK as Adobe stores it: 255 is no ink.
absl::Status ReadJpeg(absl::string_view file, const PictureHead& head, Picture& picture);

// Pixels of PNG and JPEG files, by libpng and libjpeg. The head of the file was read before
// (PictureHead), and its size is within the limit; a library that finds another size fails the
// read.
//
// Both libraries report errors by longjmp. So the function that calls setjmp has no local object
// with a destructor, and everything that must be freed is in a struct of the caller (PngRead,
// JpegRead). Files are untrusted: PNG's chunks other than the pixels are skipped, scans of a
// progressive JPEG are limited, and a JPEG that ends early is an error instead of grey pixels.

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

absl::Status ReadJpeg(absl::string_view file, const PictureHead& head, Picture& picture) {
  picture.pixels.resize(static_cast<size_t>(head.width * head.height * head.channels));
  JpegRead read;
  return ReadRows(read, file, head, picture.pixels.data())
             ? absl::OkStatus()
             : Invalid("the JPEG file is broken: ", read.message);
}

constexpr absl::string_view kPngMark("\x89PNG\r\n\x1a\n", 8);
constexpr absl::string_view kExifMark("Exif\0\0", 6);

// Integers in a file, whose bytes have either order.
uint32_t Number(absl::string_view bytes, size_t at, size_t count, bool is_little) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t place = at + (is_little ? count - 1 - i : i);
    value = value << 8 | static_cast<unsigned char>(bytes[place]);
  }
  return value;
}
uint32_t Big(absl::string_view bytes, size_t at, size_t count) {
  return Number(bytes, at, count, false);
}

// The orientation: tag 0x0112 of the first directory of a TIFF structure; 1 if it is missing or
// broken.
int OrientationOf(absl::string_view tiff) {
  if (absl::StartsWith(tiff, kExifMark)) {
    tiff.remove_prefix(kExifMark.size());
  }
  if (tiff.size() < 8 || (!absl::StartsWith(tiff, "II") && !absl::StartsWith(tiff, "MM"))) {
    return 1;
  }
  const bool is_little = tiff[0] == 'I';
  const size_t directory = Number(tiff, 4, 4, is_little);
  if (directory + 2 > tiff.size()) {
    return 1;
  }
  const size_t count = Number(tiff, directory, 2, is_little);
  constexpr size_t kEntryBytes = 12;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > tiff.size()) {
      return 1;
    }
    if (Number(tiff, entry, 2, is_little) == 0x0112) {
      const uint32_t value = Number(tiff, entry + 8, 2, is_little);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

absl::StatusOr<PictureHead> PngHead(absl::string_view file) {
  constexpr size_t kHeadEnd = 33;  // the mark and the chunk IHDR
  if (file.size() < kHeadEnd || file.substr(12, 4) != "IHDR") {
    return Invalid("the PNG file is broken: it has no head");
  }
  PictureHead head;
  head.kind = FileKind::kPng;
  head.width = Big(file, 16, 4);
  head.height = Big(file, 20, 4);
  for (size_t at = kHeadEnd; at + 8 <= file.size();) {
    const size_t size = Big(file, at, 4);
    const absl::string_view name = file.substr(at + 4, 4);
    if (name == "IDAT" || size > file.size() - at - 8) {
      break;
    }
    if (name == "eXIf") {
      head.orientation = OrientationOf(file.substr(at + 8, size));
    }
    at += 12 + size;  // with size, name and checksum
  }
  return head;
}

// Whether a marker begins a frame: SOF0 to SOF15, without DHT, JPG and DAC, which lie among them.
bool IsFrame(uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

absl::StatusOr<PictureHead> JpegHead(absl::string_view file) {
  PictureHead head;
  head.kind = FileKind::kJpeg;
  head.channels = 0;
  for (size_t at = 2; at + 4 <= file.size();) {
    const uint32_t marker = Big(file, at + 1, 1);
    if (Big(file, at, 1) != 0xFF) {
      return Invalid("the JPEG file is broken: it has no marker at byte ", at);
    }
    if (marker == 0xFF || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {
      at += marker == 0xFF ? 1 : 2;  // filling, and markers without content
      continue;
    }
    const size_t size = Big(file, at + 2, 2);
    if (size < 2 || at + 2 + size > file.size()) {
      break;
    }
    const absl::string_view content = file.substr(at + 4, size - 2);
    if (marker == 0xDA && head.channels > 0 && !content.empty()) {  // the first scan
      head.has_scans |= static_cast<int>(Big(content, 0, 1)) < head.channels;
      return head;
    }
    if (marker == 0xE1 && absl::StartsWith(content, kExifMark)) {
      head.orientation = OrientationOf(content);
    }
    if (IsFrame(marker)) {
      if (content.size() < 6) {
        break;
      }
      if (Big(content, 0, 1) != 8) {
        return Invalid("the JPEG file has ", Big(content, 0, 1), " bits a channel; 8 are read");
      }
      head.height = Big(content, 1, 2);
      head.width = Big(content, 3, 2);
      head.channels = static_cast<int>(Big(content, 5, 1));
      head.has_scans = marker == 0xC2 || marker == 0xCA;
      if (head.channels != 1 && head.channels != 3 && head.channels != 4) {
        return Invalid("the JPEG file has ", head.channels, " channels; 1, 3 and 4 are read");
      }
    }
    at += 2 + size;
  }
  return Invalid("the JPEG file is cut off, or broken: it has no pixels");
}

uint8_t Share(int value, int of) { return static_cast<uint8_t>((value * of + 127) / 255); }

// Makes three channels of four, in place: red, green, blue and alpha over white; or CMYK, in which
// 255 is no ink.
void ResolveFourth(FileKind kind, Picture& picture) {
  std::vector<uint8_t>& pixels = picture.pixels;
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    const int fourth = pixels[4 * i + 3];
    for (size_t channel = 0; channel < 3; ++channel) {
      const uint8_t part = Share(pixels[4 * i + channel], fourth);
      pixels[3 * i + channel] =
          kind == FileKind::kPng ? static_cast<uint8_t>(part + 255 - fourth) : part;
    }
  }
  pixels.resize(3 * count);
  picture.channels = 3;
}

// As EXIF numbers them: 1 is upright; 2 to 4 mirror and turn, 5 to 8 exchange the sides as well.
void ApplyOrientation(int orientation, Picture& picture) {
  if (orientation == 1) {
    return;
  }
  const bool swaps = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 ||
                          orientation == 8;  // columns of the file run to the left
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 ||
                          orientation == 7;  // rows of the file run upwards
  Picture turned;
  turned.channels = picture.channels;
  turned.width = swaps ? picture.height : picture.width;
  turned.height = swaps ? picture.width : picture.height;
  turned.pixels.resize(picture.pixels.size());
  const auto channels = static_cast<size_t>(picture.channels);
  size_t to = 0;
  for (int y = 0; y < turned.height; ++y) {
    for (int x = 0; x < turned.width; ++x) {
      const int column = swaps ? y : x;
      const int row = swaps ? x : y;
      const auto from_x = static_cast<size_t>(from_right ? picture.width - 1 - column : column);
      const auto from_y = static_cast<size_t>(from_below ? picture.height - 1 - row : row);
      const size_t from = (from_y * static_cast<size_t>(picture.width) + from_x) * channels;
      std::copy_n(picture.pixels.begin() + static_cast<std::ptrdiff_t>(from), channels,
                  turned.pixels.begin() + static_cast<std::ptrdiff_t>(to));
      to += channels;
    }
  }
  picture = std::move(turned);
}

}  // namespace

absl::StatusOr<PictureHead> ReadHead(absl::string_view file) {
  const bool is_png = absl::StartsWith(file, kPngMark);
  if (!is_png && !absl::StartsWith(file, "\xFF\xD8\xFF")) {
    return Invalid(file.empty() ? "has no bytes" : "is neither a PNG nor a JPEG file");
  }
  BW_ASSIGN_OR_RETURN(const PictureHead head, is_png ? PngHead(file) : JpegHead(file));
  for (const int64_t side : {head.width, head.height}) {
    if (side < 1 || side > kMostSide) {
      return Invalid("has ", head.width, " x ", head.height, " pixels; each side may have 1 to ",
                     kMostSide);
    }
  }
  return head;
}

int64_t DecodeBytes(const PictureHead& head) {
  constexpr int64_t kCoefficientBytes = 2;
  const int64_t turned = head.orientation > 1 ? 3 : 0;
  const int64_t buffered = head.has_scans ? kCoefficientBytes * head.channels : 0;
  return head.width * head.height * (head.channels + turned + buffered);
}

absl::StatusOr<Picture> Decode(absl::string_view file, const PictureHead& head) {
  Picture picture;
  picture.width = static_cast<int>(head.width);
  picture.height = static_cast<int>(head.height);
  picture.channels = head.channels;
  BW_RETURN_IF_ERROR(head.kind == FileKind::kPng ? ReadPng(file, head, picture)
                                                 : ReadJpeg(file, head, picture));
  if (picture.channels == 4) {
    ResolveFourth(head.kind, picture);
  }
  ApplyOrientation(head.orientation, picture);
  return picture;
}

}  // namespace beamwright::picture
