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

namespace beamwright::ops {

// Estimates, before protobuf parses an ONNX file, how much memory the parsed messages will take,
// and refuses files that would take more than four times their size and 64 MiB (CheckOnnxMemory).
// On the wire an empty message takes two bytes; parsed, some 250.
//
// Walk goes through the bytes field by field, with the few facts of the schema that it needs: which
// fields are messages (OnnxFieldOf), which are packed lists (IsPacked), which are names (IsName;
// names are copied wherever they are read, so their length is bounded). Fields of messages that it
// does not know are walked through as if they were messages, and count as text if that fails.

namespace {

constexpr int64_t kFreeBytes = int64_t{64} << 20;
constexpr int64_t kMaxWireGrowth = 4;
// About the bytes that a separate message or text takes, with the list that holds it.
constexpr int64_t kMessageBytes = 256;
constexpr int64_t kTextBytes = 48;
// A number in a separate field; those that the schema does not know are kept as well.
constexpr int64_t kNumberBytes = 16;
// An element of a packed list: once in the message, once in the tensor made of it.
constexpr int64_t kElementBytes = 16;
constexpr size_t kMaxNameBytes = 4'096;

using Message = OnnxMessage;

// Whether a field of a message is a list of numbers of variable length.
bool IsPacked(Message message, uint64_t field) {
  return message == Message::kTensor ? field == 1 || field == 5 || field == 7 || field == 11
                                     : message == Message::kAttribute && field == 8;
}

// Whether it is the name of a node, a value, an attribute, a function or an operator: these are
// copied wherever they are read.
bool IsName(Message message, uint64_t field) {
  switch (message) {
    case Message::kNode:
      return (field >= 1 && field <= 4) || field == 7;
    case Message::kAttribute:
      return field == 1 || field == 21;
    case Message::kTensor:
      return field == 8;
    case Message::kValue:
      return field == 1;
    case Message::kFunction:
      return field == 1 || (field >= 4 && field <= 6) || field == 10;
    default:
      return false;
  }
}

class Walk {
 public:
  explicit Walk(int64_t file_bytes) : budget_(kFreeBytes + kMaxWireGrowth * file_bytes) {}

  absl::Status Run(absl::string_view bytes, Message message, int depth) {
    if (depth > kMaxOnnxDepth) {
      return Invalid("messages are nested more than ", kMaxOnnxDepth, " deep");
    }
    while (!bytes.empty()) {
      uint64_t tag = 0;
      uint64_t size = 0;
      if (!Varint(bytes, tag)) {
        return Malformed();
      }
      switch (tag & 7) {
        case 0:
          if (!Varint(bytes, size)) {
            return Malformed();
          }
          BW_RETURN_IF_ERROR(Charge(kNumberBytes));
          continue;
        case 1:
          size = 8;
          BW_RETURN_IF_ERROR(Charge(kNumberBytes));
          break;
        case 5:
          size = 4;
          BW_RETURN_IF_ERROR(Charge(kNumberBytes));
          break;
        case 2:
          if (!Varint(bytes, size)) {
            return Malformed();
          }
          break;
        default:  // groups, which the format does not use
          return Malformed();
      }
      if (size > bytes.size()) {
        return Malformed();
      }
      if ((tag & 7) == 2) {
        BW_RETURN_IF_ERROR(Field(bytes.substr(0, size), message, OnnxFieldNumber(tag), depth));
      }
      bytes.remove_prefix(size);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Charge(int64_t bytes) {
    budget_ -= bytes;
    return budget_ >= 0 ? absl::OkStatus()
                        : Invalid("its messages would take more than ", kFreeBytes >> 20,
                                  " MiB and four times the file");
  }

  static absl::Status Malformed() { return Invalid("its bytes are malformed or cut short"); }

  static bool Varint(absl::string_view& bytes, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= uint64_t{byte & 127U} << shift;
      if (byte < 128) {
        return true;
      }
    }
    return false;
  }

  absl::Status Field(absl::string_view content, Message message, uint64_t field, int depth) {
    const Message held = OnnxFieldOf(message, field);
    // Whether a field of a kOther is a message is not known: it counts as one.
    const bool is_message = held != Message::kText || message == Message::kOther;
    BW_RETURN_IF_ERROR(Charge(is_message ? kMessageBytes : kTextBytes));
    if (IsName(message, field) && content.size() > kMaxNameBytes) {
      return Invalid("a name of ", content.size(), " bytes; at most ", kMaxNameBytes,
                     " are allowed");
    }
    if (IsPacked(message, field)) {
      const auto last = [](char byte) { return (static_cast<uint8_t>(byte) & 128) == 0; };
      BW_RETURN_IF_ERROR(
          Charge(kElementBytes * std::count_if(content.begin(), content.end(), last)));
    }
    if (held == Message::kText) {
      return message == Message::kOther ? Other(content, depth) : absl::OkStatus();
    }
    return held == Message::kOther ? Other(content, depth) : Run(content, held, depth + 1);
  }

  // Counts length-delimited fields inside as messages; what does not parse is text.
  absl::Status Other(absl::string_view content, int depth) {
    const int64_t before = budget_;
    absl::Status status = Run(content, Message::kOther, depth + 1);
    if (!status.ok() && budget_ >= 0 && depth < kMaxOnnxDepth) {
      budget_ = before;
      return absl::OkStatus();
    }
    return status;
  }

  int64_t budget_;
};

}  // namespace

OnnxMessage OnnxFieldOf(OnnxMessage message, uint64_t field) {
  switch (message) {
    case Message::kModel:
      return field == 7                                 ? Message::kGraph
             : field == 25                              ? Message::kFunction
             : field == 8 || field == 14 || field == 20 ? Message::kOther
                                                        : Message::kText;
    case Message::kGraph:
      return field == 1                   ? Message::kNode
             : field == 5                 ? Message::kTensor
             : field >= 11 && field <= 13 ? Message::kValue
             : field == 14 || field == 15 ? Message::kOther
                                          : Message::kText;
    case Message::kNode:
      return field == 5 ? Message::kAttribute : Message::kText;
    case Message::kAttribute:
      return field == 5 || field == 10                                  ? Message::kTensor
             : field == 6 || field == 11                                ? Message::kGraph
             : field == 14 || field == 15 || field == 22 || field == 23 ? Message::kOther
                                                                        : Message::kText;
    case Message::kTensor:
      return field == 13 ? Message::kOther : Message::kText;
    case Message::kValue:
      return field == 2 ? Message::kOther : Message::kText;
    case Message::kFunction:
      return field == 7    ? Message::kNode
             : field == 9  ? Message::kOther
             : field == 11 ? Message::kAttribute
                           : Message::kText;
    // Types, shapes, opsets, sparse tensors: small in what is wanted. Fields are looked into as if
    // they were messages, which texts seldom are and which does no harm.
    case Message::kOther:
    case Message::kText:
      break;
  }
  return Message::kText;
}

absl::Status CheckOnnxMemory(absl::string_view bytes, int64_t file_bytes) {
  return Walk(file_bytes).Run(bytes, Message::kModel, 0);
}

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

Metadata OnnxMetadata(const InputFile& file) {
  Metadata metadata;
  const absl::StatusOr<std::string> outline = OutlineOnnx(file);
  onnx::ModelProto model;
  if (!outline.ok() || !model.ParseFromArray(outline->data(), static_cast<int>(outline->size()))) {
    return metadata;
  }
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    metadata.emplace(entry.key(), entry.value());
  }
  return metadata;
}

}  // namespace beamwright::ops
