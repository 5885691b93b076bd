// The rules that .proto files state for fields, applied to any message by reflection. A field's
// rule is an option of it:
//
//   float temperature = 3 [(rule) = { minimum: 0.01 maximum: 100 default_value: "1" }];
//
// 1. CheckRules visits the fields that are set; messages within them too, with the path:
//    "default_options.beam_size", "scorers[1].max_weight".
// 2. CheckElement checks one value: a number is finite and in its range (CheckNumber), an enum is
//    known (CheckEnum), a text is UTF-8 and not too long. Lists whose elements cannot be wrong,
//    such as ids, are not walked (MayBeWrong).
// 3. CheckSearches: an option that is only for other kinds of models is a fault, rather than
//    ignored.
// 4. ApplyDefaults fills what is not set: first from a message of defaults, then from
//    default_value.
//
// A value *_UNSPECIFIED of an enum counts as not set, everywhere. EnumNames and FindEnumValue give
// enums' values the names that command lines and JSON use: STOP_MODE_SAFE is "safe".
#include "engine/bundle/rules.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/status/fault.h"
#include "ops/base/check.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One element of a field: of a repeated one the element `index`, else (index -1) the field itself.
struct Element {
  const Message& message;
  const FieldDescriptor* field;
  int index;
};

#define BW_GET(type, element)                                                                     \
  ((element).index < 0                                                                            \
       ? (element).message.GetReflection()->Get##type((element).message, (element).field)         \
       : (element).message.GetReflection()->GetRepeated##type((element).message, (element).field, \
                                                              (element).index))

double NumberOf(const Element& element) {
  switch (element.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return BW_GET(Int32, element);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(BW_GET(Int64, element));
    case FieldDescriptor::CPPTYPE_UINT32:
      return BW_GET(UInt32, element);
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(BW_GET(UInt64, element));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return static_cast<double>(BW_GET(Float, element));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return BW_GET(Double, element);
    default:
      return 0;
  }
}

// Whole numbers in full: 1000000, not 1e+06.
std::string Print(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(value);
}

bool IsNumber(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return true;
    default:
      return false;
  }
}

// A float field holds the float next to 0.01, not 0.01: the bound is rounded alike.
double Bound(const FieldDescriptor* field, double bound) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT
             ? static_cast<double>(static_cast<float>(bound))
             : bound;
}

std::string Allowed(const v1::FieldRule& rule) {
  const std::string unit = rule.unit().empty() ? "" : absl::StrCat(" ", rule.unit());
  if (rule.has_minimum() && rule.has_maximum()) {
    return absl::StrCat("outside [", Print(rule.minimum()), ", ", Print(rule.maximum()), "]", unit);
  }
  return rule.has_minimum() ? absl::StrCat("below ", Print(rule.minimum()), unit)
                            : absl::StrCat("above ", Print(rule.maximum()), unit);
}

void CheckNumber(const Element& element, const std::string& path, status::Faults& faults) {
  const v1::FieldRule& rule = element.field->options().GetExtension(v1::rule);
  const double value = NumberOf(element);
  if (!std::isfinite(value)) {
    faults.Add(path, value, " is not a finite number");
    return;
  }
  if ((rule.has_minimum() && value < Bound(element.field, rule.minimum())) ||
      (rule.has_maximum() && value > Bound(element.field, rule.maximum()))) {
    faults.Add(path, Print(value), " is ", Allowed(rule));
  }
}

void CheckEnum(const Element& element, const std::string& path, status::Faults& faults) {
  const int value = BW_GET(EnumValue, element);
  const EnumDescriptor* type = element.field->enum_type();
  if (type->FindValueByNumber(value) != nullptr) {
    return;
  }
  std::vector<std::string> known;
  for (int i = 0; i < type->value_count(); ++i) {
    known.push_back(type->value(i)->name());
  }
  faults.Add(path, value, " is not a known value; known are ", absl::StrJoin(known, ", "));
}

void CheckElement(const Element& element, const std::string& path, status::Faults& faults) {
  if (IsNumber(element.field)) {
    CheckNumber(element, path, faults);
    return;
  }
  switch (element.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      CheckEnum(element, path, faults);
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      CheckRules(BW_GET(Message, element), path, faults);
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      if (element.index < 0) {
        if (const std::string text =
                TooLong(*element.field, static_cast<int64_t>(BW_GET(String, element).size()));
            !text.empty()) {
          faults.Add(path, text);
          return;
        }
      }
      if (element.field->type() == FieldDescriptor::TYPE_STRING) {
        const absl::Status status = CheckUtf8(BW_GET(String, element));
        if (!status.ok()) {
          faults.Add(path, status.message());
        }
      }
      return;
    default:
      return;
  }
}

// False if every value of an element is allowed, as of ids, of which lists have thousands.
bool MayBeWrong(const FieldDescriptor& field) {
  const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
  return !IsNumber(&field) || rule.has_minimum() || rule.has_maximum() ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

bool IsUnspecified(const Message& message, const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM &&
         message.GetReflection()->GetEnumValue(message, field) == 0 &&
         absl::EndsWith(field->enum_type()->value(0)->name(), "_UNSPECIFIED");
}

bool IsSet(const Message& message, const FieldDescriptor* field) {
  return message.GetReflection()->HasField(message, field) && !IsUnspecified(message, field);
}

void SetFromText(const FieldDescriptor* field, const std::string& text, Message& message) {
  const Reflection* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    reflection->SetString(&message, field, text);
    return;
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    reflection->SetBool(&message, field, text == "true");
    return;
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const EnumValueDescriptor* value = FindEnumValue(field->enum_type(), text);
    BW_CHECK(value != nullptr);
    reflection->SetEnum(&message, field, value);
    return;
  }
  double value = 0;
  BW_CHECK(absl::SimpleAtod(text, &value));
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(&message, field, static_cast<int32_t>(value));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(&message, field, static_cast<int64_t>(value));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->SetUInt32(&message, field, static_cast<uint32_t>(value));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(&message, field, static_cast<uint64_t>(value));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(&message, field, static_cast<float>(value));
    default:
      BW_CHECK(field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
      return reflection->SetDouble(&message, field, value);
  }
}

// "STOP_MODE_" of STOP_MODE_UNSPECIFIED; empty for an enum without such a value.
absl::string_view EnumPrefix(const EnumDescriptor* type) {
  absl::string_view prefix = type->value(0)->name();
  return absl::ConsumeSuffix(&prefix, "UNSPECIFIED") ? prefix : "";
}

std::string EnumShortName(const EnumValueDescriptor* value) {
  absl::string_view name = value->name();
  absl::ConsumePrefix(&name, EnumPrefix(value->type()));
  return absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", "-"}}));
}

}  // namespace

const EnumValueDescriptor* FindEnumValue(const EnumDescriptor* type, const std::string& text) {
  for (int i = 0; i < type->value_count(); ++i) {
    if (EnumShortName(type->value(i)) == text && text != "unspecified") {
      return type->value(i);
    }
  }
  return nullptr;
}

std::string EnumNames(const EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) {
    if (std::string name = EnumShortName(type->value(i)); name != "unspecified") {
      names.push_back(std::move(name));
    }
  }
  return absl::StrJoin(names, ", ");
}

void CheckRule(const Message& message, const FieldDescriptor& field, const std::string& path,
               status::Faults& faults) {
  const std::string name = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
  if (!field.is_repeated()) {
    CheckElement({message, &field, -1}, name, faults);
    return;
  }
  const int size = message.GetReflection()->FieldSize(message, &field);
  if (const std::string text = TooLong(field, size); !text.empty()) {
    faults.Add(name, text);
    return;
  }
  if (!MayBeWrong(field)) {
    return;
  }
  for (int i = 0; i < size; ++i) {
    CheckElement({message, &field, i}, absl::StrCat(name, "[", i, "]"), faults);
  }
}

void CheckRules(const Message& message, const std::string& path, status::Faults& faults) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    CheckRule(message, *field, path, faults);
  }
}

void CheckSearches(const Message& options, v1::Search search, const std::string& path,
                   status::Faults& faults) {
  static constexpr const char* kModels[] = {"", "models with a decoder", "CTC models",
                                            "transducers", "taggers"};
  std::vector<const FieldDescriptor*> fields;
  options.GetReflection()->ListFields(options, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto& known = field->options().GetExtension(v1::rule).searches();
    if (known.empty() || std::find(known.begin(), known.end(), search) != known.end() ||
        (!field->is_repeated() && IsUnspecified(options, field))) {
      continue;
    }
    faults.Add(absl::StrCat(path, ".", field->name()), "is for ",
               absl::StrJoin(known, " and ",
                             [](std::string* out, int one) { absl::StrAppend(out, kModels[one]); }),
               "; the model is one of the ", kModels[search]);
  }
}

void ApplyDefaults(const Message& fallback, Message& message) {
  BW_CHECK(fallback.GetDescriptor() == message.GetDescriptor());
  const google::protobuf::Descriptor* descriptor = message.GetDescriptor();
  const std::unique_ptr<Message> merged(fallback.New());
  merged->CopyFrom(fallback);
  // MergeFrom would append to lists and merge messages, and would take "unspecified" as a value:
  // clear these first.
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field->is_repeated() ? message.GetReflection()->FieldSize(message, field) > 0
                             : is_message && message.GetReflection()->HasField(message, field)) {
      merged->GetReflection()->ClearField(merged.get(), field);
    } else if (!field->is_repeated() && !IsSet(message, field)) {
      message.GetReflection()->ClearField(&message, field);
    }
  }
  merged->MergeFrom(message);
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    const std::string& text = field->options().GetExtension(v1::rule).default_value();
    if (field->has_presence() && !text.empty() && !IsSet(*merged, field)) {
      SetFromText(field, text, *merged);
    }
  }
  message.CopyFrom(*merged);
}

}  // namespace beamwright::bundle
