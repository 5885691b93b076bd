// What this program was built from and what it runs with, for bug reports and inventories.
#ifndef BEAMWRIGHT_SERVER_BUILD_INFO_H_
#define BEAMWRIGHT_SERVER_BUILD_INFO_H_

#include <string>

namespace beamwright {

// One JSON object, with a line break behind it: name, version, the commit of the tree when it was
// configured (empty outside a repository), compiler, build type, the vector instructions that
// kernels have code for and those that they use here, and the versions of the libraries that are
// loaded.
std::string BuildInfoJson();

}  // namespace beamwright

#endif  // BEAMWRIGHT_SERVER_BUILD_INFO_H_
