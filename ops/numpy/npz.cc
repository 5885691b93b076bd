// Reads and writes .npz files: zip archives of .npy files, one per tensor. Entries are unpacked in
// pieces until their end or a limit, whatever size the directory claims, so that memory follows the
// data that is there. WriteNpz stores without compression and with a fixed time, so that equal
// tensors make equal files.
#include "ops/numpy/npz.h"

#include <zip.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

// Reads and writes NumPy's .npy format, version 1 to 3, in memory:
//
//   "\x93NUMPY"  major minor  length of the header (2 bytes; 4 from version 2 on)
//   header: a literal of Python, padded with blanks, a newline at the end
//       {'descr': '<f4', 'fortran_order': False, 'shape': (3, 80), }
//   the elements, in C order
//
// ParseNpy: TakeHeader splits off the header, HeaderParser reads the dictionary by recursive
// descent (its three keys in any order), ParseDescr turns the type code into a DType,
// and the number of bytes must be exactly that of the shape. Objects, structures, texts, complex
// numbers, big-endian numbers and Fortran order are refused with what they are: a file is input
// from outside, and nothing in it is evaluated.
//
// FormatNpy writes version 1, or 2 if the header is longer than 65,535 bytes, and pads the header
// so that the elements begin at a multiple of 64 bytes, which readers that map the file rely on.
// NumPy has no bf16: it is written as f32.

namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 32;  // NumPy's own limit

struct TypeCode {
  DType dtype;
  absl::string_view code;  // without byte order
};

constexpr TypeCode kTypeCodes[] = {
    {DType::kF32, "f4"}, {DType::kF16, "f2"}, {DType::kF64, "f8"}, {DType::kI64, "i8"},
    {DType::kI32, "i4"}, {DType::kI16, "i2"}, {DType::kI8, "i1"},  {DType::kU64, "u8"},
    {DType::kU32, "u4"}, {DType::kU16, "u2"}, {DType::kU8, "u1"},  {DType::kBool, "b1"},
};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Header> Run() {
    BW_RETURN_IF_ERROR(Expect("{"));
    while (!Take("}")) {
      BW_ASSIGN_OR_RETURN(const std::string key, TakeString());
      BW_RETURN_IF_ERROR(Expect(":"));
      BW_RETURN_IF_ERROR(TakeValue(key));
      if (!Take(",")) {
        BW_RETURN_IF_ERROR(Expect("}"));
        break;
      }
    }
    SkipBlanks();
    if (!text_.empty()) {
      return Malformed("its end");
    }
    if (!header_.descr || !header_.fortran_order || !header_.shape) {
      return Invalid(".npy header lacks 'descr', 'fortran_order' or 'shape'");
    }
    return header_;
  }

 private:
  void SkipBlanks() { text_ = absl::StripLeadingAsciiWhitespace(text_); }

  bool Take(absl::string_view token) {
    SkipBlanks();
    return absl::ConsumePrefix(&text_, token);
  }

  absl::Status Malformed(absl::string_view expected) const {
    return Invalid(".npy header is malformed: expected ", expected, " at '", text_.substr(0, 20),
                   "'");
  }

  absl::Status Expect(absl::string_view token) {
    return Take(token) ? absl::OkStatus() : Malformed(absl::StrCat("'", token, "'"));
  }

  absl::StatusOr<std::string> TakeString() {
    for (const absl::string_view quote : {"'", "\""}) {
      if (Take(quote)) {
        const size_t end = text_.find(quote);
        if (end == absl::string_view::npos) {
          return Malformed("a closing quote");
        }
        std::string value(text_.substr(0, end));
        text_.remove_prefix(end + 1);
        return value;
      }
    }
    return Malformed("a string");
  }

  // Keys may stand in any order, and each has one type.
  absl::Status TakeValue(absl::string_view key) {
    if (key == "descr") {
      if (Take("[")) {
        return absl::UnimplementedError("arrays of structures are not supported");
      }
      BW_ASSIGN_OR_RETURN(header_.descr, TakeString());
      return absl::OkStatus();
    }
    if (key == "fortran_order") {
      header_.fortran_order = Take("True");
      return *header_.fortran_order || Take("False") ? absl::OkStatus()
                                                     : Malformed("True or False");
    }
    if (key == "shape") {
      return TakeShape();
    }
    return Invalid(".npy header has the unknown key '", key.substr(0, 20), "'");
  }

  // A tuple: "()", "(3,)" with its comma, "(3, 80)".
  absl::Status TakeShape() {
    BW_RETURN_IF_ERROR(Expect("("));
    Shape shape;
    while (!Take(")")) {
      SkipBlanks();
      size_t digits = 0;
      while (digits < text_.size() && absl::ascii_isdigit(text_[digits])) {
        ++digits;
      }
      int64_t dim = 0;
      if (!absl::SimpleAtoi(text_.substr(0, digits), &dim) || shape.size() == kMaxRank) {
        return Malformed(absl::StrCat("an extent, at most ", kMaxRank, " of them,"));
      }
      text_.remove_prefix(digits);
      shape.push_back(dim);
      if (!Take(",")) {
        BW_RETURN_IF_ERROR(Expect(")"));
        break;
      }
    }
    header_.shape = std::move(shape);
    return absl::OkStatus();
  }

  absl::string_view text_;
  Header header_;
};

// '<f4': the byte order (little-endian, or none for single bytes), the kind, and the bytes of an
// element.
absl::StatusOr<DType> ParseDescr(absl::string_view descr) {
  absl::string_view code = descr;
  if (!code.empty() && absl::StrContains("<|=", code[0])) {
    code.remove_prefix(1);
    for (const TypeCode& type : kTypeCodes) {
      if (code == type.code) {
        return type.dtype;
      }
    }
  }
  const absl::string_view why = absl::StrContains(descr, 'O')  ? " (objects)"
                                : absl::StartsWith(descr, ">") ? " (big-endian)"
                                : absl::StartsWith(code, "c")  ? " (complex numbers)"
                                : absl::StartsWith(code, "U") || absl::StartsWith(code, "S")
                                    ? " (texts)"
                                    : "";
  return absl::UnimplementedError(
      absl::StrCat("element type '", descr.substr(0, 20), "'", why,
                   " is not supported; floats of 16 to 64 bits, integers and booleans, "
                   "little-endian, are"));
}

// Splits `bytes` into header text and elements.
absl::StatusOr<absl::string_view> TakeHeader(absl::string_view& bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic) || bytes.size() < 2) {
    return Invalid("not a .npy file");
  }
  const int version = static_cast<unsigned char>(bytes[0]);
  if (version < 1 || version > 3) {
    return absl::UnimplementedError(
        absl::StrCat(".npy version ", version, " is not supported; 1 to 3 are"));
  }
  bytes.remove_prefix(2);
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  if (bytes.size() < length_bytes) {
    return Invalid(".npy file ends in its header");
  }
  std::memcpy(&length, bytes.data(), length_bytes);
  bytes.remove_prefix(length_bytes);
  if (bytes.size() < length) {
    return Invalid(".npy file ends in its header");
  }
  const absl::string_view header = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return header;
}

absl::string_view CodeOf(DType dtype) {
  for (const TypeCode& type : kTypeCodes) {
    if (type.dtype == dtype) {
      return type.code;
    }
  }
  CheckFailed(__FILE__, __LINE__, "dtype has a NumPy code");
}

}  // namespace

// The size is checked before memory is taken for the elements.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes) {
  BW_ASSIGN_OR_RETURN(const absl::string_view text, TakeHeader(bytes));
  BW_ASSIGN_OR_RETURN(const Header header, HeaderParser(text).Run());
  BW_ASSIGN_OR_RETURN(const DType dtype, ParseDescr(*header.descr));
  if (*header.fortran_order && header.shape->size() > 1) {
    return absl::UnimplementedError(
        "Fortran order is not supported; numpy.ascontiguousarray makes C order");
  }
  BW_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(*header.shape));
  if (static_cast<int64_t>(bytes.size()) != elements * SizeOf(dtype)) {
    return Invalid(Name(dtype), ToString(*header.shape), " needs ", elements * SizeOf(dtype),
                   " bytes, the file holds ", bytes.size());
  }
  Tensor tensor(dtype, *header.shape);
  if (!bytes.empty()) {
    std::memcpy(tensor.mutable_bytes(), bytes.data(), bytes.size());
  }
  if (dtype == DType::kBool) {  // any byte may stand there; a bool is 0 or 1
    for (int64_t i = 0; i < elements; ++i) {
      tensor.mutable_bytes()[i] = std::byte{tensor.bytes()[i] != std::byte{0}};
    }
  }
  return tensor;
}

std::string FormatNpy(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBF16) {
    return FormatNpy(*Convert(tensor, DType::kF32));
  }
  std::string header =
      absl::StrCat("{'descr': '", SizeOf(tensor.dtype()) == 1 ? "|" : "<", CodeOf(tensor.dtype()),
                   "', 'fortran_order': False, 'shape': (", absl::StrJoin(tensor.shape(), ", "),
                   tensor.rank() == 1 ? ",), }" : "), }");
  // Blanks align the elements to 64 bytes; the header ends with a newline.
  constexpr size_t kAlign = 64;
  const bool is_long = header.size() + kAlign > 0xffff;
  const size_t before = kMagic.size() + 2 + (is_long ? 4 : 2);
  header.append(kAlign - 1 - (before + header.size()) % kAlign, ' ');
  header.push_back('\n');
  const auto length = static_cast<uint32_t>(header.size());
  char length_bytes[4];
  std::memcpy(length_bytes, &length, sizeof(length));
  std::string result(kMagic);
  result.push_back(is_long ? 2 : 1);
  result.push_back(0);
  result.append(length_bytes, is_long ? 4 : 2);
  result.append(header);
  result.append(reinterpret_cast<const char*>(tensor.bytes()),
                static_cast<size_t>(tensor.num_bytes()));
  return result;
}

namespace {

// libzip's errors own memory.
struct ZipError {
  ZipError() { zip_error_init(&error); }
  explicit ZipError(int code) { zip_error_init_with_code(&error, code); }
  ~ZipError() { zip_error_fini(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  absl::string_view message() { return zip_error_strerror(&error); }
  zip_error_t error;
};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;

absl::StatusOr<Archive> Open(absl::string_view bytes) {
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error.error);
  if (source == nullptr) {
    return absl::ResourceExhaustedError(error.message());
  }
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error.error));
  if (archive == nullptr) {
    zip_source_free(source);
    return Invalid("not a zip archive: ", error.message());
  }
  return archive;
}

// Reads to the end whatever the directory claims the size to be, so that memory follows data.
absl::StatusOr<std::string> ReadEntry(zip_t* archive, zip_uint64_t index, int64_t max_bytes) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) {
    return Invalid("cannot be unpacked: ", zip_strerror(archive));
  }
  constexpr size_t kLeast = size_t{1} << 12;
  constexpr size_t kMost = size_t{1} << 24;
  std::string content;
  while (true) {
    const size_t done = content.size();
    const size_t chunk = std::clamp(done, kLeast, kMost);
    content.resize(done + chunk);
    const zip_int64_t got = zip_fread(entry.get(), content.data() + done, chunk);
    if (got < 0) {
      return Invalid("cannot be unpacked: ", zip_file_strerror(entry.get()));
    }
    content.resize(done + static_cast<size_t>(got));
    if (got == 0) {
      return content;
    }
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return Invalid("the archive unpacks to more than the allowed size");
    }
  }
}

absl::Status WriteFailed(const std::string& path, absl::string_view why) {
  return absl::UnknownError(absl::StrCat("cannot write '", path, "': ", why));
}

}  // namespace

// `left` is what the entries that are still to come may take together, so that no archive unpacks
// to more than the limit, however many entries it has.
absl::StatusOr<TensorMap> ParseNpz(absl::string_view bytes, const NpzLimits& limits) {
  BW_ASSIGN_OR_RETURN(const Archive archive, Open(bytes));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > limits.max_arrays) {
    return Invalid("has ", count, " entries; at most ", limits.max_arrays, " are allowed");
  }
  TensorMap tensors;
  int64_t left = limits.max_bytes;
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* raw_name = zip_get_name(archive.get(), index, 0);
    if (raw_name == nullptr) {
      return Invalid("entry ", i, " has no name");
    }
    const std::string entry_name = raw_name;
    const std::string where = absl::StrCat("entry '", entry_name.substr(0, 200), "'");
    absl::string_view name = entry_name;
    if (!absl::ConsumeSuffix(&name, ".npy")) {
      return Invalid(where, ": is not a .npy file");
    }
    const absl::StatusOr<std::string> content =
        ReadEntry(archive.get(), index, std::min(left, MaxTensorBytes()));
    if (!content.ok()) {
      return Annotate(content.status(), where);
    }
    left -= static_cast<int64_t>(content->size());
    // The tensor is made while it is in memory.
    const HeldMemory held(content->size());
    if (static_cast<int64_t>(content->size()) > MaxTensorBytes()) {
      return Annotate(TooLarge("the array"), where);
    }
    absl::StatusOr<Tensor> tensor = ParseNpy(*content);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), where);
    }
    if (!tensors.emplace(std::string(name), *std::move(tensor)).second) {
      return Invalid(where, ": there are two of this name");
    }
  }
  return tensors;
}

absl::StatusOr<TensorMap> ReadNpz(const std::string& path, const NpzLimits& limits) {
  BW_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, limits.max_bytes));
  const HeldMemory held(bytes.size());
  absl::StatusOr<TensorMap> tensors = ParseNpz(bytes, limits);
  if (!tensors.ok()) {
    return Annotate(tensors.status(), absl::StrCat("'", path, "'"));
  }
  return tensors;
}

absl::Status WriteNpz(const std::string& path, const TensorMap& tensors) {
  if (tensors.empty()) {
    return Invalid("no tensors to write to '", path, "'");  // libzip would remove the file
  }
  constexpr time_t kNoTime = 315'532'800;  // 1980-01-01, the first that zip can say
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive == nullptr) {
    return WriteFailed(path, ZipError(code).message());
  }
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum += tensor.num_bytes();
  }
  if (sum > MaxTensorBytes()) {
    return TooLarge(absl::StrCat("the file '", path, "' of ", sum, " bytes"));
  }
  std::vector<std::string> contents;  // must live until the archive is closed
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    contents.push_back(FormatNpy(tensor));
    zip_source_t* source =
        zip_source_buffer(archive.get(), contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index = source == nullptr
                                  ? -1
                                  : zip_file_add(archive.get(), absl::StrCat(name, ".npy").c_str(),
                                                 source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return WriteFailed(path, zip_strerror(archive.get()));
    }
    if (zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE,
                                 0) != 0 ||
        zip_file_set_mtime(archive.get(), static_cast<zip_uint64_t>(index), kNoTime, 0) != 0) {
      return WriteFailed(path, zip_strerror(archive.get()));
    }
  }
  if (zip_close(archive.get()) != 0) {
    return WriteFailed(path, zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // zip_close has freed it
  return absl::OkStatus();
}

}  // namespace beamwright::ops
