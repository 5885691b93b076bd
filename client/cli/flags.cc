#include "client/cli/flags.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/rule.pb.h"
#include "client/cli/field.h"

namespace beamwright::client {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kOftenTyped[] = "n_best";  // -n

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

}  // namespace beamwright::client
