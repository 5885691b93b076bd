// How --help looks: descriptions broken into lines at a hundred columns, defaults and ranges in the
// descriptions instead of in the names' column.
#ifndef BEAMWRIGHT_CLIENT_CLI_HELP_H_
#define BEAMWRIGHT_CLIENT_CLI_HELP_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace beamwright::client {

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_HELP_H_
