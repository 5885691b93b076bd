// Opens a graph file and the weights next to it, for callers without rules for files. Private
// to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_FILES_BESIDE_H_
#define BEAMWRIGHT_OPS_IMPORT_FILES_BESIDE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "ops/import/import_options.h"

namespace beamwright::ops {

// Opens `graph_path` wherever it leads, for it was named by the user, and other files where their
// links end in the folder of `graph_path` or in the folder `allow_links`, unless that is empty.
OpenFileFunction FilesBeside(const std::string& graph_path, const std::string& allow_links);

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(absl::string_view path);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_FILES_BESIDE_H_
