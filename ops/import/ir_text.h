// The small languages inside IR attributes: numbers, lists, shapes, lists of names. Strict: what is
// not wholly a number is an error, never 0. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_IR_TEXT_H_
#define BEAMWRIGHT_OPS_IMPORT_IR_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/attributes.h"
#include "ops/tensor/dtype.h"
#include "ops/tensor/shape.h"

namespace beamwright::ops {

inline constexpr int kMaxIrRank = 32;

// What kind of value an attribute's text stands for.
enum class AttributeKind {
  kInt,
  kFloat,
  kBool,     // true, True, 1, false, False, 0
  kEnum,     // a string, made lower case
  kText,     // a string as it stands
  kInts,     // comma separated, blanks allowed; empty text: an empty list
  kFloats,   // lists of numbers
  kEnums,    // lists of names, made lower case
  kDropped,  // means nothing to a kernel
};

// All of these: InvalidArgument naming the text and what is expected.
absl::StatusOr<int64_t> ParseInt(absl::string_view text);
absl::StatusOr<double> ParseFloat(absl::string_view text);  // infinities allowed, NaN not
absl::StatusOr<bool> ParseBool(absl::string_view text);
// Not for kDropped.
absl::StatusOr<AttributeValue> ParseAttribute(AttributeKind kind, absl::string_view text);

// One extent: "25", or "?", "-1", "1..8", "..5", "3.." for an unknown one.
absl::StatusOr<int64_t> ParseDim(absl::string_view text);
// "1, 25, ?"; "" is a scalar's, "..." one of unknown rank.
absl::StatusOr<PartialShape> ParseShape(absl::string_view text);
// Refuses a rank above kMaxIrRank and known extents whose product exceeds 2^48.
absl::StatusOr<PartialShape> MakeShape(Shape dims);
// ParseDType, with kUndefined for "", "dynamic", "undefined" and "unspecified".
absl::StatusOr<DType> ParsePortType(absl::string_view text);
// Tensor names: comma separated, a comma inside a name is written "\,".
std::vector<std::string> ParseNames(absl::string_view text);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IR_TEXT_H_
