// Parses the texts of IR files: numbers, lists, extents ("?", "-1", "1..8"), shapes, types and
// names with escaped commas. Every number is checked, and messages quote at most 60 characters of
// the file, which may be hostile.
#include "ops/import/ir_text.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 48;

// Messages quote input; a hostile file must not make them long.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? absl::StrCat("'", text, "'")
                              : absl::StrCat("'", text.substr(0, kMost), "...'");
}

std::vector<absl::string_view> SplitList(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) {
    return {};
  }
  std::vector<absl::string_view> items = absl::StrSplit(text, ',');
  for (absl::string_view& item : items) {
    item = absl::StripAsciiWhitespace(item);
  }
  return items;
}

template <typename T, typename Parse>
absl::StatusOr<AttributeValue> ParseList(absl::string_view text, Parse parse) {
  std::vector<T> values;
  for (const absl::string_view item : SplitList(text)) {
    BW_ASSIGN_OR_RETURN(T value, parse(item));
    values.push_back(std::move(value));
  }
  return AttributeValue(std::move(values));
}

absl::StatusOr<int64_t> ParseExtent(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > kMaxExtent) {
    return Invalid("extent ", Quoted(text),
                   " is not a number from 0 to 2^48, '?', '-1' or a range such as '1..8'");
  }
  return value;
}

}  // namespace

absl::StatusOr<int64_t> ParseInt(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return Invalid(Quoted(text), " is not an integer of 64 bits");
  }
  return value;
}

absl::StatusOr<double> ParseFloat(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || std::isnan(value)) {
    return Invalid(Quoted(text), " is not a number");
  }
  return value;
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  const absl::string_view word = absl::StripAsciiWhitespace(text);
  if (absl::EqualsIgnoreCase(word, "true") || word == "1") {
    return true;
  }
  if (absl::EqualsIgnoreCase(word, "false") || word == "0") {
    return false;
  }
  return Invalid(Quoted(text), " is neither true nor false");
}

absl::StatusOr<AttributeValue> ParseAttribute(AttributeKind kind, absl::string_view text) {
  const auto lower = [](absl::string_view item) -> absl::StatusOr<std::string> {
    return absl::AsciiStrToLower(absl::StripAsciiWhitespace(item));
  };
  switch (kind) {
    case AttributeKind::kInt:
      return ParseInt(text);
    case AttributeKind::kFloat:
      return ParseFloat(text);
    case AttributeKind::kBool:
      return ParseBool(text);
    case AttributeKind::kInts:
      return ParseList<int64_t>(text, ParseInt);
    case AttributeKind::kFloats:
      return ParseList<double>(text, ParseFloat);
    case AttributeKind::kEnums:
      return ParseList<std::string>(text, lower);
    case AttributeKind::kText:
      return std::string(text);
    case AttributeKind::kEnum:
    case AttributeKind::kDropped:
      break;
  }
  return lower(text);
}

absl::StatusOr<int64_t> ParseDim(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "?" || text == "-1") {
    return PartialShape::kDynamic;
  }
  const size_t dots = text.find("..");
  if (dots == absl::string_view::npos) {
    return ParseExtent(text);
  }
  const absl::string_view first = text.substr(0, dots);
  const absl::string_view last = text.substr(dots + 2);
  int64_t low = 0;
  int64_t high = kMaxExtent;
  if (!first.empty()) {
    BW_ASSIGN_OR_RETURN(low, ParseExtent(first));
  }
  if (!last.empty()) {
    BW_ASSIGN_OR_RETURN(high, ParseExtent(last));
  }
  if (low > high || (first.empty() && last.empty())) {
    return Invalid("extent ", Quoted(text), " is not a range");
  }
  return low == high ? low : PartialShape::kDynamic;
}

absl::StatusOr<PartialShape> MakeShape(Shape dims) {
  if (dims.size() > static_cast<size_t>(kMaxIrRank)) {
    return Invalid("a shape of rank ", dims.size(), "; at most ", kMaxIrRank, " is allowed");
  }
  Shape known;
  for (const int64_t dim : dims) {
    if (dim != PartialShape::kDynamic) {
      known.push_back(dim);
    }
  }
  BW_RETURN_IF_ERROR(CheckedNumElements(known).status());
  return PartialShape(std::move(dims));
}

absl::StatusOr<PartialShape> ParseShape(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text) == "...") {
    return PartialShape();
  }
  Shape dims;
  for (const absl::string_view item : SplitList(text)) {
    BW_ASSIGN_OR_RETURN(const int64_t dim, ParseDim(item));
    dims.push_back(dim);
  }
  return MakeShape(std::move(dims));
}

absl::StatusOr<DType> ParsePortType(absl::string_view text) {
  for (const absl::string_view unknown : {"", "dynamic", "undefined", "unspecified"}) {
    if (absl::EqualsIgnoreCase(text, unknown)) {
      return DType::kUndefined;
    }
  }
  return ParseDType(text);
}

std::vector<std::string> ParseNames(absl::string_view text) {
  std::vector<std::string> names;
  std::string name;
  const auto finish = [&] {
    const absl::string_view stripped = absl::StripAsciiWhitespace(name);
    if (!stripped.empty()) {
      names.emplace_back(stripped);
    }
    name.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',') {
      name.push_back(text[++i]);
    } else if (text[i] == ',') {
      finish();
    } else {
      name.push_back(text[i]);
    }
  }
  finish();
  return names;
}

}  // namespace beamwright::ops
