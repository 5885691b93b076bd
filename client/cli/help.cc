#include "client/cli/help.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace beamwright::client {
namespace {

constexpr size_t kPageWidth = 100;
constexpr size_t kNameWidth = 32;

}  // namespace

HelpFormatter::HelpFormatter() {
  column_width(kNameWidth);
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

// The base class puts an empty line between groups and another before each.
std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  const bool is_first = is_positional || group == "Options";
  const std::string text = CLI::Formatter::make_group(group, is_positional, std::move(options));
  return is_first ? text : text.substr(1);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string& type = option->get_type_name();
  return option->get_positional() || option->get_type_size() == 0 || type.empty() ? "" : " " + type;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string wrapped;
  size_t line_width = 0;
  for (absl::string_view word :
       absl::StrSplit(option->get_description(), ' ', absl::SkipWhitespace())) {
    if (line_width > 0 && line_width + 1 + word.size() > kPageWidth - kNameWidth) {
      wrapped += "\n";
      line_width = 0;
    }
    absl::StrAppend(&wrapped, line_width > 0 ? " " : "", word);
    line_width += word.size() + (line_width > 0 ? 1 : 0);
  }
  return wrapped;
}

}  // namespace beamwright::client
