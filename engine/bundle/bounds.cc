// Checks the sizes of lists and texts in a serialised request before it is parsed. A parsed message
// may take many times the memory of its bytes: a packed list of 16 million numbers takes 16 MB on
// the wire and 64 MB after, and an empty message in a list takes 2 bytes on the wire and over 50
// after. So the bounds are checked on the wire.
//
// 1. WireWalk::Message reads tag after tag and looks up the field. Fields that are unknown are
//    skipped; the number of fields in all messages together is bounded (kMaxFields).
// 2. Delimited: a text is compared with its bound, a message is walked through, a packed list is
//    counted (Packed).
// 3. Count adds up the elements of a repeated field, which may come in several pieces.
//
// MaxItems is the bound of a field: max_items of its rule in our .proto files, InferenceBounds for
// the messages of Open Inference, whose .proto file is not ours to extend. The error names the path
// of the field, "sources[3].ids.ids".
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/rule.pb.h"
#include "engine/bundle/rules.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxWireDepth = 32;
constexpr int64_t kMaxNameBytes = 1024;
constexpr int64_t kMaxElements = int64_t{1} << 24;        // of a tensor in a message
constexpr int64_t kMaxElementBytes = int64_t{1} << 28;    // of a repeated bytes field
constexpr int64_t kMaxParameterBytes = int64_t{1} << 20;  // options in JSON

// Bounds of the package `inference`, by the field's name behind it.
const absl::flat_hash_map<std::string, int64_t>& InferenceBounds() {
  static const auto* const bounds = new absl::flat_hash_map<std::string, int64_t>{
      {"ModelReadyRequest.name", kMaxNameBytes},
      {"ModelReadyRequest.version", kMaxNameBytes},
      {"ModelMetadataRequest.name", kMaxNameBytes},
      {"ModelMetadataRequest.version", kMaxNameBytes},
      {"ModelConfigRequest.name", kMaxNameBytes},
      {"ModelConfigRequest.version", kMaxNameBytes},
      {"ModelStatisticsRequest.name", kMaxNameBytes},
      {"ModelStatisticsRequest.version", kMaxNameBytes},
      {"ModelInferRequest.model_name", kMaxNameBytes},
      {"ModelInferRequest.model_version", kMaxNameBytes},
      {"ModelInferRequest.id", kMaxNameBytes},
      {"ModelInferRequest.parameters", 256},
      {"ModelInferRequest.inputs", 256},
      {"ModelInferRequest.outputs", 256},
      {"ModelInferRequest.raw_input_contents", 256},
      {"ModelInferRequest.InferInputTensor.name", kMaxNameBytes},
      {"ModelInferRequest.InferInputTensor.datatype", 64},
      {"ModelInferRequest.InferInputTensor.shape", 16},
      {"ModelInferRequest.InferInputTensor.parameters", 64},
      {"ModelInferRequest.InferRequestedOutputTensor.name", kMaxNameBytes},
      {"ModelInferRequest.InferRequestedOutputTensor.parameters", 64},
      {"InferParameter.string_param", kMaxParameterBytes},
      {"InferTensorContents.bool_contents", kMaxElements},
      {"InferTensorContents.int_contents", kMaxElements},
      {"InferTensorContents.int64_contents", kMaxElements},
      {"InferTensorContents.uint_contents", kMaxElements},
      {"InferTensorContents.uint64_contents", kMaxElements},
      {"InferTensorContents.fp32_contents", kMaxElements},
      {"InferTensorContents.fp64_contents", kMaxElements},
      {"InferTensorContents.bytes_contents", int64_t{1} << 16},
      {"RepositoryIndexRequest.repository_name", kMaxNameBytes},
      {"RepositoryModelLoadRequest.repository_name", kMaxNameBytes},
      {"RepositoryModelLoadRequest.model_name", kMaxNameBytes},
      {"RepositoryModelLoadRequest.parameters", 64},
      {"RepositoryModelUnloadRequest.repository_name", kMaxNameBytes},
      {"RepositoryModelUnloadRequest.model_name", kMaxNameBytes},
      {"RepositoryModelUnloadRequest.parameters", 64},
      {"ModelRepositoryParameter.string_param", kMaxParameterBytes},
      {"ModelRepositoryParameter.bytes_param", kMaxParameterBytes},
      {"LogSettingsRequest.settings", 64},
      {"LogSettingsRequest.SettingValue.string_param", kMaxNameBytes},
  };
  return *bounds;
}

std::string TooLarge(int64_t size, absl::string_view unit, int64_t most) {
  return absl::StrCat(size, " ", unit, "; at most ", most, " are allowed");
}

bool IsText(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

// The place of the walk: the field that is open and the number of its element, and the place of the
// message around it.
struct Place {
  const Place* outer;
  const FieldDescriptor* field;
  int64_t index;  // -1: the field is not repeated
};

std::string ToString(const Place* place) {
  std::string path;
  for (; place != nullptr; place = place->outer) {
    path = absl::StrCat(place->field->name(),
                        place->index < 0 ? "" : absl::StrCat("[", place->index, "]"),
                        path.empty() ? "" : ".", path);
  }
  return path;
}

// Walks through a serialised message.
class WireWalk {
 public:
  explicit WireWalk(CodedInputStream& bytes) : bytes_(bytes) {}

  // False: the walk has ended, with status() or because the bytes are malformed.
  bool Message(const Descriptor& type, const Place* place, int depth) {
    absl::InlinedVector<int64_t, 16> counts(static_cast<size_t>(type.field_count()), 0);
    while (const uint32_t tag = bytes_.ReadTag()) {
      if (++num_fields_ > kMaxFields) {
        status_ = Invalid("the request has more than ", kMaxFields,
                          " fields in its messages; send it as several calls");
        return false;
      }
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool has_length =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (field == nullptr || !has_length) {
        if (field != nullptr && field->is_repeated() && !Count(*field, 1, counts, place)) {
          return false;
        }
        if (!WireFormatLite::SkipField(&bytes_, tag)) {
          return false;
        }
      } else if (!Delimited(*field, counts, place, depth)) {
        return false;
      }
    }
    return true;
  }

  const absl::Status& status() const { return status_; }

 private:
  using Counts = absl::InlinedVector<int64_t, 16>;

  bool Fail(const FieldDescriptor& field, const Place* outer, const std::string& text) {
    const Place place = {outer, &field, -1};
    status_ = status::InvalidField(ToString(&place), text);
    return false;
  }

  // Adds elements of a repeated field.
  bool Count(const FieldDescriptor& field, int64_t elements, Counts& counts, const Place* place) {
    int64_t& count = counts[static_cast<size_t>(field.index())];
    count += elements;
    const int64_t most = MaxItems(field);
    return most == 0 || count <= most ||
           Fail(field, place,
                absl::StrCat("more than ", most, " elements; at most ", most, " are allowed"));
  }

  // A field with a length: a message, a string, or a packed list.
  bool Delimited(const FieldDescriptor& field, Counts& counts, const Place* place, int depth) {
    uint32_t length = 0;
    if (!bytes_.ReadVarint32(&length) ||
        length > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
      return false;
    }
    const auto size = static_cast<int>(length);
    const bool is_message = field.type() == FieldDescriptor::TYPE_MESSAGE;
    if (!is_message && !IsText(field)) {
      return Packed(field, size, counts, place);
    }
    if (field.is_repeated() && !Count(field, 1, counts, place)) {
      return false;
    }
    if (IsText(field)) {
      const int64_t most = field.is_repeated() ? kMaxElementBytes : MaxItems(field);
      if (most > 0 && size > most) {
        return Fail(field, place, TooLarge(size, "bytes", most));
      }
      return bytes_.Skip(size);
    }
    if (depth == kMaxWireDepth) {
      return bytes_.Skip(size);
    }
    const int64_t index = field.is_repeated() ? counts[static_cast<size_t>(field.index())] - 1 : -1;
    const Place inner = {place, &field, index};
    const CodedInputStream::Limit outer = bytes_.PushLimit(size);
    if (!Message(*field.message_type(), &inner, depth + 1)) {
      return false;
    }
    const bool is_whole = bytes_.Skip(bytes_.BytesUntilLimit());
    bytes_.PopLimit(outer);
    return is_whole;
  }

  // A packed list of numbers. No number takes less than a byte, so a list whose bytes are within
  // the bound need not be counted.
  bool Packed(const FieldDescriptor& field, int size, Counts& counts, const Place* place) {
    if (!field.is_repeated()) {
      return bytes_.Skip(size);
    }
    const int64_t most = MaxItems(field);
    const WireFormatLite::WireType type =
        WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
    int64_t elements = 0;
    if (type != WireFormatLite::WIRETYPE_VARINT || most == 0 ||
        counts[static_cast<size_t>(field.index())] + size <= most) {
      elements = type == WireFormatLite::WIRETYPE_FIXED32   ? size / 4
                 : type == WireFormatLite::WIRETYPE_FIXED64 ? size / 8
                                                            : size;
      return Count(field, elements, counts, place) && bytes_.Skip(size);
    }
    const CodedInputStream::Limit outer = bytes_.PushLimit(size);
    uint64_t value = 0;
    while (elements <= most && bytes_.BytesUntilLimit() > 0 && bytes_.ReadVarint64(&value)) {
      ++elements;
    }
    if (!Count(field, elements, counts, place)) {
      return false;
    }
    const bool is_whole = bytes_.BytesUntilLimit() == 0;
    bytes_.PopLimit(outer);
    return is_whole;
  }

  CodedInputStream& bytes_;
  int64_t num_fields_ = 0;
  absl::Status status_;
};

}  // namespace

int64_t MaxItems(const FieldDescriptor& field) {
  if (const int64_t of_rule = field.options().GetExtension(v1::rule).max_items(); of_rule > 0) {
    return of_rule;
  }
  if (field.containing_type()->options().map_entry()) {
    return IsText(field) ? kMaxNameBytes : 0;  // its key: a proto has no place for a rule of it
  }
  constexpr absl::string_view kPackage = "inference";
  if (field.file()->package() != kPackage) {
    return 0;
  }
  const auto bound = InferenceBounds().find(field.full_name().substr(kPackage.size() + 1));
  return bound == InferenceBounds().end() ? 0 : bound->second;
}

std::string TooLong(const FieldDescriptor& field, int64_t length) {
  const int64_t most = MaxItems(field);
  return most == 0 || length <= most
             ? ""
             : TooLarge(length, field.is_repeated() ? "elements" : "bytes", most);
}

absl::Status CheckBounds(const Descriptor& type, CodedInputStream& bytes) {
  WireWalk walk(bytes);
  walk.Message(type, nullptr, 0);
  return walk.status();
}

absl::Status CheckBounds(const google::protobuf::Message& message) {
  const std::string serialised = message.SerializeAsString();
  CodedInputStream bytes(reinterpret_cast<const uint8_t*>(serialised.data()),
                         static_cast<int>(serialised.size()));
  return CheckBounds(*message.GetDescriptor(), bytes);
}

}  // namespace beamwright::bundle
