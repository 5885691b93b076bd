#include "server/oip/datatypes.h"

#include "absl/strings/str_join.h"

namespace beamwright::oip {
namespace {

constexpr Datatype kDatatypes[] = {
    {"BOOL", "boolean", 1, inference::TYPE_BOOL}, {"UINT8", "u8", 1, inference::TYPE_UINT8},
    {"UINT16", "u16", 2, inference::TYPE_UINT16}, {"UINT32", "u32", 4, inference::TYPE_UINT32},
    {"UINT64", "u64", 8, inference::TYPE_UINT64}, {"INT8", "i8", 1, inference::TYPE_INT8},
    {"INT16", "i16", 2, inference::TYPE_INT16},   {"INT32", "i32", 4, inference::TYPE_INT32},
    {"INT64", "i64", 8, inference::TYPE_INT64},   {"FP16", "f16", 2, inference::TYPE_FP16},
    {"BF16", "bf16", 2, inference::TYPE_BF16},    {"FP32", "f32", 4, inference::TYPE_FP32},
    {"FP64", "f64", 8, inference::TYPE_FP64},     {"BYTES", "", 0, inference::TYPE_STRING},
};

}  // namespace

const Datatype* FindDatatype(absl::string_view name) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.name == name) {
      return &datatype;
    }
  }
  return nullptr;
}

const Datatype* FindDType(absl::string_view dtype) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.dtype == dtype && !dtype.empty()) {
      return &datatype;
    }
  }
  return nullptr;
}

std::string DatatypeNames() {
  return absl::StrJoin(kDatatypes, ", ", [](std::string* out, const Datatype& datatype) {
    absl::StrAppend(out, datatype.name);
  });
}

}  // namespace beamwright::oip
