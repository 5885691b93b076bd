#include "client/short_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace beamwright::client {

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  constexpr absl::string_view kUnspecified = "UNSPECIFIED";
  absl::string_view prefix = value.type()->value(0)->name();
  absl::string_view name = value.name();
  if (absl::ConsumeSuffix(&prefix, kUnspecified)) {
    absl::ConsumePrefix(&name, prefix);
  }
  return name == kUnspecified ? "" : absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", "-"}}));
}

}  // namespace beamwright::client
