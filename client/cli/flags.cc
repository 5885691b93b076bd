// Command-line flags made of protobuf messages: AddMessageFlags adds one flag for each field, with
// help, range and unit from the field's rule (rule.proto), so that a new option of decode.proto is
// a flag without a line of code.
//
// 1. FlagName: no_repeat_ngram is --no-repeat-ngram. Describe writes the help, AllowedValues the
//    range, ValueKind the kind of value. Booleans also have a --no- form.
// 2. SetField parses the text of a flag and sets the field, or adds to a repeated one: PutNumber
//    checks the range, PutEnum takes short names ("gnmt") and a number behind a colon for the field
//    <name>_alpha ("gnmt:0.6"), PutMessage takes plain words for messages with a text ("New
//    York:2.5") and JSON for others.
// 3. AddIntFlag and AddDurationFlag are for settings that are no option of a request.
//
// Faults are CLI::ValidationError with the flag's name, the value and what is allowed.
#include "client/cli/flags.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "beamwright/v1/rule.pb.h"
#include "client/channels.h"
#include "client/cli/answers.h"
#include "google/protobuf/util/json_util.h"
#include "ops/base/status.h"

namespace beamwright::client {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kOftenTyped[] = "n_best";  // -n

// The help of a flag: the rule's text, and in brackets what is allowed, the default, and for which
// searches it is.
std::string Describe(const FieldDescriptor& field) {
  const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
  std::string notes = AllowedValues(field);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL || absl::StrContains(rule.text(), notes)) {
    notes.clear();
  }
  if (!rule.default_value().empty()) {
    absl::StrAppend(&notes, notes.empty() ? "" : "; ", "default ", rule.default_value());
  }
  if (!rule.searches().empty() && rule.searches(0) != v1::SEARCH_TOKENS) {
    absl::StrAppend(
        &notes, notes.empty() ? "" : "; ",
        rule.searches_size() > 1 ? "for CTC models and transducers" : "for transducers");
  }
  return notes.empty() ? rule.text() : absl::StrCat(rule.text(), " [", notes, "]");
}

void SetOrThrow(const FieldDescriptor& field, const std::string& text,
                google::protobuf::Message& message) {
  if (absl::Status status = SetField(field, text, message); !status.ok()) {
    throw CLI::ValidationError(FlagName(field), std::string(status.message()));
  }
}

void AddBoolFlags(CLI::App& app, const std::string& group, const FieldDescriptor& field,
                  google::protobuf::Message& message) {
  const std::string name = FlagName(field);
  app.add_flag_callback(
         name, [&] { SetOrThrow(field, "true", message); }, Describe(field))
      ->group(group);
  app.add_flag_callback(
         "--no-" + name.substr(2), [&] { SetOrThrow(field, "false", message); }, "The opposite.")
      ->group(group);
}

CLI::Option* AddFlag(CLI::App& app, const FlagText& flag, const std::string& notes,
                     CLI::callback_t callback) {
  return app.add_option(flag.name, std::move(callback), absl::StrCat(flag.text, " [", notes, "]"))
      ->group(flag.group);
}

}  // namespace

// Fields of the message become flags in their order; a rule may put one under another title of the
// help (group). The callbacks hold references to the message, which must outlive the parser. A flag
// that is not given leaves its field unset, so that the model's default counts.
void AddMessageFlags(CLI::App& app, const std::string& group, google::protobuf::Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string& own_group = field.options().GetExtension(v1::rule).group();
    const std::string& title = own_group.empty() ? group : own_group;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL && !field.is_repeated()) {
      AddBoolFlags(app, title, field, message);
      continue;
    }
    CLI::Option* option =
        app.add_option((field.name() == kOftenTyped ? "-n," : "") + FlagName(field),
                       [&field, &message](const CLI::results_t& values) {
                         for (const std::string& value : values) {
                           SetOrThrow(field, value, message);
                         }
                         return true;
                       },
                       Describe(field));
    option->group(title)->type_name(ValueKind(field));
    if (field.is_repeated()) {
      option->take_all();
    }
  }
}

CLI::Option* AddIntFlag(CLI::App& app, const FlagText& flag, int minimum, int maximum, int& value) {
  const std::string allowed = absl::StrCat(minimum, " to ", maximum);
  return AddFlag(app, flag, absl::StrCat(allowed, "; default ", value),
                 [=, &value, name = flag.name](const CLI::results_t& values) {
                   if (!absl::SimpleAtoi(values[0], &value) || value < minimum || value > maximum) {
                     throw CLI::ValidationError(
                         name,
                         absl::StrCat("\"", values[0], "\" is not a whole number from ", allowed));
                   }
                   return true;
                 })
      ->type_name("INT");
}

// A number without a unit is refused with the ways to write it: "--timeout 10" could be meant in
// seconds or in milliseconds.
CLI::Option* AddDurationFlag(CLI::App& app, const FlagText& flag, absl::Duration minimum,
                             absl::Duration maximum, absl::Duration& value) {
  const std::string allowed =
      absl::StrCat(absl::FormatDuration(minimum), " to ", absl::FormatDuration(maximum));
  return AddFlag(
             app, flag, absl::StrCat(allowed, "; default ", absl::FormatDuration(value)),
             [=, &value, name = flag.name](const CLI::results_t& values) {
               double number = 0;
               if (absl::SimpleAtod(values[0], &number) && std::isfinite(number) && number != 0) {
                 throw CLI::ValidationError(
                     name, absl::StrCat("\"", values[0], "\" has no unit; write ", values[0], "s, ",
                                        values[0], "ms or ", values[0], "m"));
               }
               if (!absl::ParseDuration(values[0], &value) || !(value >= minimum) ||
                   value > maximum) {
                 throw CLI::ValidationError(
                     name, absl::StrCat("\"", values[0], "\" is not a duration from ", allowed,
                                        ", such as 500ms, 10s or 2m"));
               }
               return true;
             })
      ->type_name("DURATION");
}

namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const v1::FieldRule& Rule(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::rule);
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", text, "\""); }

std::string ShortNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (std::string name = ShortName(*type.value(i)); !name.empty()) {
      names.push_back(std::move(name));
    }
  }
  if (names.size() < 2) {
    return absl::StrJoin(names, "");
  }
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

absl::Status CheckRange(const FieldDescriptor& field, absl::string_view text, double value) {
  const v1::FieldRule& rule = Rule(field);
  if (!std::isfinite(value) || (rule.has_minimum() && value < rule.minimum()) ||
      (rule.has_maximum() && value > rule.maximum())) {
    return Invalid(Quoted(text), " is out of range: ", AllowedValues(field));
  }
  return absl::OkStatus();
}

// AllowedValues, or the range of the type where the field has no limits.
template <typename T>
std::string AllowedIntegers(const FieldDescriptor& field) {
  const v1::FieldRule& rule = Rule(field);
  return rule.has_minimum() || rule.has_maximum()
             ? AllowedValues(field)
             : absl::StrCat(std::numeric_limits<T>::min(), " to ", std::numeric_limits<T>::max());
}

// Parses and range-checks a whole number of the field's C++ type.
template <typename T>
absl::Status ParseInteger(const FieldDescriptor& field, absl::string_view text, T& value) {
  if (!absl::SimpleAtoi(text, &value)) {
    double number = 0;
    const bool whole =
        absl::SimpleAtod(text, &number) && std::isfinite(number) && number == std::floor(number);
    return Invalid(Quoted(text), whole ? " is out of range: " : " is not a whole number: ",
                   AllowedIntegers<T>(field));
  }
  return CheckRange(field, text, static_cast<double>(value));
}

absl::Status ParseNumber(const FieldDescriptor& field, absl::string_view text, double& value) {
  if (!absl::SimpleAtod(text, &value)) {
    return Invalid(Quoted(text), " is not a number: ", AllowedValues(field));
  }
  return CheckRange(field, text, value);
}

absl::Status ParseEnum(const FieldDescriptor& field, absl::string_view text,
                       const EnumValueDescriptor*& value) {
  const EnumDescriptor& type = *field.enum_type();
  for (int i = 0; i < type.value_count(); ++i) {
    if (!text.empty() && ShortName(*type.value(i)) == text) {
      value = type.value(i);
      return absl::OkStatus();
    }
  }
  return Invalid(Quoted(text), " is not known: ", AllowedValues(field));
}

// Sets or, if the field is repeated, adds. `Set##Type` and `Add##Type` of protobuf's reflection.
#define BW_PUT(Type, value)                                            \
  (field.is_repeated() ? reflection.Add##Type(&message, &field, value) \
                       : reflection.Set##Type(&message, &field, value))

absl::Status PutNumber(const FieldDescriptor& field, absl::string_view text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      BW_RETURN_IF_ERROR(ParseInteger(field, text, value));
      BW_PUT(Int32, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      BW_RETURN_IF_ERROR(ParseInteger(field, text, value));
      BW_PUT(Int64, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      BW_RETURN_IF_ERROR(ParseInteger(field, text, value));
      BW_PUT(UInt32, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      BW_RETURN_IF_ERROR(ParseInteger(field, text, value));
      BW_PUT(UInt64, value);
      break;
    }
    default: {
      double value = 0;
      BW_RETURN_IF_ERROR(ParseNumber(field, text, value));
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        BW_PUT(Double, value);
      } else if (std::abs(value) > std::numeric_limits<float>::max()) {
        return Invalid(Quoted(text), " is too large for a 32-bit float");
      } else {
        BW_PUT(Float, static_cast<float>(value));
      }
    }
  }
  return absl::OkStatus();
}

// With the value's parameter behind a colon, where the message has a field for it.
absl::Status PutEnum(const FieldDescriptor& field, absl::string_view text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* alpha =
      field.containing_type()->FindFieldByName(absl::StrCat(field.name(), "_alpha"));
  const size_t colon = alpha == nullptr ? absl::string_view::npos : text.find(':');
  const EnumValueDescriptor* value = nullptr;
  BW_RETURN_IF_ERROR(ParseEnum(field, text.substr(0, colon), value));
  if (colon != absl::string_view::npos) {
    BW_RETURN_IF_ERROR(
        Annotate(SetField(*alpha, text.substr(colon + 1), message), FlagName(*alpha)));
  }
  BW_PUT(Enum, value);
  return absl::OkStatus();
}

// The field that plain words set, of a message with a text or a name; null for other messages.
const FieldDescriptor* TextField(const FieldDescriptor& field) {
  const google::protobuf::Descriptor& type = *field.message_type();
  const FieldDescriptor* text = type.FindFieldByName("text");
  text = text == nullptr ? type.FindFieldByName("name") : text;
  return text != nullptr && text->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? text : nullptr;
}

// The only number in a message, which may follow the words: "words:2.5"; null if missing.
const FieldDescriptor* NumberField(const google::protobuf::Descriptor& type) {
  const FieldDescriptor* found = nullptr;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const FieldDescriptor::CppType kind = field->cpp_type();
    if (kind == FieldDescriptor::CPPTYPE_FLOAT || kind == FieldDescriptor::CPPTYPE_DOUBLE) {
      if (found != nullptr) {
        return nullptr;
      }
      found = field;
    }
  }
  return found;
}

absl::Status PutMessage(const FieldDescriptor& field, absl::string_view text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  Message* value = field.is_repeated() ? reflection.AddMessage(&message, &field)
                                       : reflection.MutableMessage(&message, &field);
  const FieldDescriptor* words = TextField(field);
  if (words != nullptr && !absl::StartsWith(text, "{")) {
    const FieldDescriptor* number = NumberField(*field.message_type());
    const size_t colon = number == nullptr ? absl::string_view::npos : text.rfind(':');
    double unused = 0;
    if (colon != absl::string_view::npos && absl::SimpleAtod(text.substr(colon + 1), &unused)) {
      BW_RETURN_IF_ERROR(SetField(*number, text.substr(colon + 1), *value));
      text = text.substr(0, colon);
    }
    return SetField(*words, text, *value);
  }
  const auto status =
      google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, value);
  if (!status.ok()) {
    return Invalid(Quoted(text), " is not a ", field.message_type()->name(),
                   " in protobuf's JSON form: ",
                   absl::string_view(status.message().data(), status.message().size()));
  }
  return absl::OkStatus();
}

absl::Status PutBool(const FieldDescriptor& field, absl::string_view text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  bool value = false;
  if (!absl::SimpleAtob(text, &value)) {
    return Invalid(Quoted(text), " is not known: ", AllowedValues(field));
  }
  BW_PUT(Bool, value);
  return absl::OkStatus();
}

absl::Status PutText(const FieldDescriptor& field, absl::string_view text, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  BW_PUT(String, std::string(text));
  return absl::OkStatus();
}

#undef BW_PUT

}  // namespace

std::string FlagName(const FieldDescriptor& field) {
  return absl::StrCat("--", absl::StrReplaceAll(field.name(), {{"_", "-"}}));
}

std::string AllowedValues(const FieldDescriptor& field) {
  const v1::FieldRule& rule = Rule(field);
  const std::string unit = rule.unit().empty() ? "" : " " + rule.unit();
  const auto number = [](double value) { return absl::StrFormat("%.9g", value); };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortNames(*field.enum_type());
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return rule.unit();
    default:
      if (rule.has_minimum() && rule.has_maximum()) {
        return absl::StrCat(number(rule.minimum()), " to ", number(rule.maximum()), unit);
      }
      if (rule.has_minimum()) {
        return absl::StrCat("at least ", number(rule.minimum()), unit);
      }
      return rule.has_maximum() ? absl::StrCat("at most ", number(rule.maximum()), unit)
                                : rule.unit();
  }
}

std::string ValueKind(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return "NAME";
    case FieldDescriptor::CPPTYPE_STRING:
      return "TEXT";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return TextField(field) != nullptr ? "TEXT" : "JSON";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "BOOL";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "NUMBER";
    default:
      return "INT";
  }
}

absl::Status SetField(const FieldDescriptor& field, absl::string_view text, Message& message) {
  if (field.has_presence() && message.GetReflection()->HasField(message, &field)) {
    return Invalid("given twice");
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return PutEnum(field, text, message);
    case FieldDescriptor::CPPTYPE_STRING:
      return PutText(field, text, message);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return PutMessage(field, text, message);
    case FieldDescriptor::CPPTYPE_BOOL:
      return PutBool(field, text, message);
    default:
      return PutNumber(field, text, message);
  }
}

void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags) {
  app.add_option("--server", flags.client.address,
                 "Where the server listens for gRPC [host:port; environment BEAMWRIGHT_SERVER; "
                 "default localhost:8001]")
      ->envname("BEAMWRIGHT_SERVER")
      ->type_name("ADDRESS")
      ->group(kConnectionGroup);
  SecurityOptions& security = flags.client.security;
  const auto add = [&app](const char* flag, const char* variable, const char* help,
                          std::string& value, const char* type) {
    app.add_option(flag, value, help)->envname(variable)->type_name(type)->group(kConnectionGroup);
  };
  app.add_flag("--tls", security.tls, "Encrypt the connection; implied by --tls-ca and --tls-cert.")
      ->envname("BEAMWRIGHT_TLS")
      ->group(kConnectionGroup);
  add("--tls-ca", "BEAMWRIGHT_TLS_CA", "Certificates that vouch for the server (PEM).",
      security.ca_file, "FILE");
  add("--tls-cert", "BEAMWRIGHT_TLS_CERT", "Your certificate (PEM), if the server asks for one.",
      security.cert_file, "FILE");
  add("--tls-key", "BEAMWRIGHT_TLS_KEY", "Its private key (PEM).", security.key_file, "FILE");
  add("--tls-server-name", "BEAMWRIGHT_TLS_SERVER_NAME",
      "Name in the server's certificate, where it is not the host's.", security.server_name,
      "NAME");
  add("--token-file", "BEAMWRIGHT_TOKEN_FILE", "File with the bearer token to call with.",
      security.token_file, "FILE");
  AddDurationFlag(app, {"--timeout", kConnectionGroup, "Longest wait for an answer to a call."},
                  absl::Milliseconds(1), absl::Hours(24), flags.timeout);
}

std::string CodeAndMessage(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", Printable(status.message()));
}

// Turns gRPC's messages about connections into sentences about the server's address. All others are
// shown as they came.
std::string Explain(const absl::Status& status, const ConnectionFlags& flags) {
  const absl::string_view message = status.message();
  const std::string& address = flags.client.address;
  constexpr absl::string_view kHint = "; --server or BEAMWRIGHT_SERVER names another one";
  if (absl::IsUnavailable(status) &&
      absl::StrContains(message, "Failed to connect to remote host")) {
    const size_t colon = message.rfind(": ");
    const absl::string_view reason =
        colon == absl::string_view::npos ? message : message.substr(colon + 2);
    return absl::StrCat("no server answers at ", address, " (", Printable(reason), ")", kHint);
  }
  if (absl::IsUnavailable(status) && absl::StrContains(message, "DNS resolution failed")) {
    return absl::StrCat("the host of ", address, " is not known", kHint);
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::StrCat("no answer from ", address, " within ", absl::FormatDuration(flags.timeout),
                        " (--timeout): ", CodeAndMessage(status));
  }
  return CodeAndMessage(status);
}

void AddModelFlag(CLI::App& app, std::string& model) {
  app.add_option("--model", model, "The model to ask. May be left out where only one is served.")
      ->type_name("NAME")
      ->group("Input");
}

void AddVersionFlag(CLI::App& app, std::string& version) {
  app.add_option("--version", version,
                 "Its version, or a label of it [default: the newest that is served]")
      ->type_name("VERSION")
      ->group("Input");
}

}  // namespace beamwright::client
