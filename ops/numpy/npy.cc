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
#include "ops/numpy/npy.h"

#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"

namespace beamwright::ops {
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

}  // namespace beamwright::ops
