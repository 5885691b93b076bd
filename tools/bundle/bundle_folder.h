// The folder that `init` makes: its files, first gathered, then written.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_

#include <map>
#include <string>

#include "absl/status/status.h"

namespace beamwright::tools {

// Content of the bundle's files by name.
using Files = std::map<std::string, std::string>;

// InvalidArgument: another file of this name is there.
absl::Status AddFile(const std::string& name, std::string content, Files& files);

// AlreadyExists: the folder is there and not empty.
absl::Status CheckOut(const std::string& out);
// Makes the folder. Unknown: the system's reason, with the path.
absl::Status WriteFiles(const std::string& out, const Files& files);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_BUNDLE_FOLDER_H_
