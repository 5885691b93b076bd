// What readers of graph files share: their options, and how they come by files.
#ifndef BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
#define BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace beamwright::ops {

struct ImportOptions {
  // false: layers of unknown type are an Unimplemented error that lists all of them. true: they
  // become nodes with the file's type as op and all attributes as strings; good for looking at a
  // graph, not for running it.
  bool keep_unknown_layers = false;
};

// The content of a file by its name, as the graph file or its reader spells it. Whoever gives the
// function decides which files may be read; a graph file is not trusted.
using ReadFileFunction = std::function<absl::StatusOr<std::string>(const std::string& name)>;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
