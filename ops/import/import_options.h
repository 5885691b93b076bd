// What readers of graph files share: their options, and how they come by files.
#ifndef BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
#define BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ops/base/input_file.h"

namespace beamwright::ops {

struct ImportOptions {
  // false: layers of unknown type are an Unimplemented error that lists all of them. true: they
  // become nodes with the file's type as op and all attributes as strings; good for looking at a
  // graph, not for running it.
  bool keep_unknown_layers = false;
  // A folder that links of weights' files may lead into, in addition to the folder of the graph
  // file. Empty: none. For ReadGraph(path), which opens files by itself.
  std::string allow_links;
};

// With keep_unknown_layers, an attribute of a node whose operator is known, but which could not be
// read because another fault keeps from being known what it reads: only that one is in the way.
inline constexpr char kHiddenOperator[] = "hidden_by_another_fault";

// Opens a file by its name, as the graph file or its reader spells it. The caller who gives the
// function decides which files may be read; a graph file is not trusted.
using InputFilePtr = std::shared_ptr<const InputFile>;
using OpenFileFunction = std::function<absl::StatusOr<InputFilePtr>(const std::string& name)>;

// The same where files are in memory.
using ReadFileFunction = std::function<absl::StatusOr<std::string>(const std::string& name)>;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
