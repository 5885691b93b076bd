// What readers of graph files share: their options, how they come by files, tensors whose elements
// lie in files, and the operators by which they infer types.
#ifndef BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
#define BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/base/file.h"
#include "ops/graph/operator.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// What readers of graph files share: their options, and how they come by files.

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

// Files that are taken for graph files or weights and are something else.

// InvalidArgument if the file is a Git LFS pointer, an archive or an ONNX Runtime model, saying
// what it is and what to do; OK for all else, which need not be what is wanted. Does not name the
// file.
absl::Status CheckFileKind(const InputFile& file);

// The same of weights, which may begin with any bytes: a Git LFS pointer alone is recognised, and
// only in a file as short as one.
absl::Status CheckWeightsKind(const InputFile& file);

// Tensors whose elements stand in a file as they stand in memory.

// The elements from `offset` on, which must lie in the file; of booleans any byte but 0 is true.
// In a DeferredScope (ops/tensor/tensor_memory.h) a large tensor is read when it is needed.
// DataLoss if the file has changed.
absl::StatusOr<Tensor> ReadTensor(const InputFilePtr& file, int64_t offset, DType dtype,
                                  const Shape& shape);

// Opens a graph file and the weights next to it, for callers without rules for files.

// Opens `graph_path` wherever it leads, for it was named by the user, and other files where their
// links end in the folder of `graph_path` or in the folder `allow_links`, unless that is empty.
OpenFileFunction FilesBeside(const std::string& graph_path, const std::string& allow_links);

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(absl::string_view path);

// The operators that importers infer types and shapes with.

// Loops need no entry: their inference is the graph's own.
const OperatorSet& KnownOperatorSet();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_IMPORT_OPTIONS_H_
