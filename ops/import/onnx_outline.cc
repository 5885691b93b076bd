// Copies an ONNX file without the bytes of its large tensors (OutlineOnnx), so that protobuf parses
// a small message, and weights stay in the file until they are needed.
//
// Outline goes through the file with a window (FileWindow), field by field; raw_data and float_data
// of at least kLargeBytes are replaced by a field with their offset and size (a mark), which
// ElementsInFile reads from the parsed tensor. Marks have field numbers that onnx.proto does not
// use; a mark that is in the file itself is left out, as it would name any place of the file.
#include "ops/import/onnx_outline.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/base/status.h"
#include "ops/import/onnx_wire.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kLargeBytes = int64_t{16} << 10;
constexpr uint64_t kFloatData = 4;
constexpr uint64_t kRawData = 9;
// Fields that onnx.proto does not have: 16 bytes, offset and size. Such fields in the file itself
// are left out.
constexpr uint64_t kRawMark = 536'870'910;
constexpr uint64_t kFloatMark = 536'870'911;

absl::Status Malformed() { return Invalid("its bytes are malformed or cut short"); }

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 128; value >>= 7) {
    out.push_back(static_cast<char>(value | 128));
  }
  out.push_back(static_cast<char>(value));
}

void AppendField(uint64_t field, absl::string_view content, std::string& out) {
  AppendVarint(field << 3 | 2, out);
  AppendVarint(content.size(), out);
  out.append(content.data(), content.size());
}

// A file through a window, so that what is skipped is not read.
class FileWindow {
 public:
  explicit FileWindow(const InputFile& file) : file_(file), bytes_(size_t{64} << 10) {}

  absl::Status Varint(int64_t end, int64_t& at, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      if (at < begin_ || at >= end_) {
        begin_ = at;
        end_ = std::min(file_.size(), at + static_cast<int64_t>(bytes_.size()));
        BW_RETURN_IF_ERROR(file_.Read(begin_, end_ - begin_, bytes_.data()));
      }
      const auto byte = static_cast<uint8_t>(bytes_[static_cast<size_t>(at++ - begin_)]);
      value |= uint64_t{byte & 127U} << shift;
      if (byte < 128) {
        return absl::OkStatus();
      }
    }
    return Malformed();
  }

  absl::Status Append(int64_t at, int64_t count, std::string& out) const {
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(count));
    return file_.Read(at, count, out.data() + before);
  }

 private:
  const InputFile& file_;
  std::vector<char> bytes_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

class Outline {
 public:
  explicit Outline(const InputFile& file) : window_(file) {}

  // Appends the message at [at, end).
  absl::Status Run(int64_t at, int64_t end, OnnxMessage message, int depth, std::string& out) {
    if (depth > kMaxOnnxDepth) {
      return Invalid("messages are nested more than ", kMaxOnnxDepth, " deep");
    }
    while (at < end) {
      const int64_t begin = at;
      uint64_t tag = 0;
      uint64_t number = 0;
      BW_RETURN_IF_ERROR(window_.Varint(end, at, tag));
      switch (tag & 7) {
        case 0:
          BW_RETURN_IF_ERROR(window_.Varint(end, at, number));
          break;
        case 1:
          at += 8;
          break;
        case 5:
          at += 4;
          break;
        case 2: {
          BW_RETURN_IF_ERROR(window_.Varint(end, at, number));
          if (number > static_cast<uint64_t>(end - at)) {
            return Malformed();
          }
          const auto size = static_cast<int64_t>(number);
          BW_RETURN_IF_ERROR(
              Field({begin, at, at + size}, message, OnnxFieldNumber(tag), depth, out));
          at += size;
          continue;
        }
        default:  // groups, which the format does not use
          return Malformed();
      }
      if (at > end) {
        return Malformed();
      }
      BW_RETURN_IF_ERROR(window_.Append(begin, at - begin, out));
    }
    return absl::OkStatus();
  }

 private:
  struct Range {
    int64_t tag = 0;      // where the field begins
    int64_t content = 0;  // where its content does
    int64_t end = 0;
  };

  absl::Status Field(const Range& range, OnnxMessage message, uint64_t field, int depth,
                     std::string& out) {
    const int64_t size = range.end - range.content;
    if (message == OnnxMessage::kTensor) {
      if (field == kRawMark || field == kFloatMark) {
        return absl::OkStatus();
      }
      if ((field == kRawData || field == kFloatData) && size >= kLargeBytes) {
        const int64_t mark[] = {range.content, size};
        AppendField(field == kRawData ? kRawMark : kFloatMark,
                    {reinterpret_cast<const char*>(mark), sizeof(mark)}, out);
        return absl::OkStatus();
      }
    }
    const OnnxMessage held = OnnxFieldOf(message, field);
    const bool may_hold_tensors =
        held != OnnxMessage::kText && held != OnnxMessage::kOther && held != OnnxMessage::kValue;
    // A small message has no large tensors, but it may have marks.
    if (!may_hold_tensors) {
      return window_.Append(range.tag, range.end - range.tag, out);
    }
    std::string inner;
    BW_RETURN_IF_ERROR(Run(range.content, range.end, held, depth + 1, inner));
    AppendField(field, inner, out);
    return absl::OkStatus();
  }

  FileWindow window_;
};

}  // namespace

absl::StatusOr<std::string> OutlineOnnx(const InputFile& file) {
  std::string outline;
  BW_RETURN_IF_ERROR(Outline(file).Run(0, file.size(), OnnxMessage::kModel, 0, outline));
  BW_RETURN_IF_ERROR(file.CheckUnchanged());
  return outline;
}

absl::StatusOr<std::optional<OnnxElements>> ElementsInFile(const onnx::TensorProto& tensor) {
  std::optional<OnnxElements> found;
  const google::protobuf::UnknownFieldSet& unknown =
      tensor.GetReflection()->GetUnknownFields(tensor);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const google::protobuf::UnknownField& field = unknown.field(i);
    const auto number = static_cast<uint64_t>(field.number());
    int64_t mark[2] = {};
    if ((number != kRawMark && number != kFloatMark) ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
        field.length_delimited().size() != sizeof(mark)) {
      continue;
    }
    std::memcpy(mark, field.length_delimited().data(), sizeof(mark));
    if (found.has_value() || tensor.has_raw_data() || tensor.float_data_size() > 0) {
      return Invalid("has its elements more than once");
    }
    found = OnnxElements{mark[0], mark[1], number == kFloatMark};
  }
  return found;
}

}  // namespace beamwright::ops
