// clang-format off: jpeglib.h needs size_t and FILE.
#include <jerror.h>
#include <jpeglib.h>

#include <cstddef>
#include <cstdio>
// clang-format on

#include <csetjmp>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/picture/pixel_readers.h"
#include "ops/base/status.h"

namespace beamwright::picture {
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
