// Files that are taken for graph files or weights and are something else. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_FILE_KIND_H_
#define BEAMWRIGHT_OPS_IMPORT_FILE_KIND_H_

#include "absl/status/status.h"
#include "ops/import/import_options.h"

namespace beamwright::ops {

// InvalidArgument if the file is a Git LFS pointer, an archive or an ONNX Runtime model, saying
// what it is and what to do; OK for all else, which need not be what is wanted. Does not name the
// file.
absl::Status CheckFileKind(const InputFile& file);

// The same of weights, which may begin with any bytes: a Git LFS pointer alone is recognised, and
// only in a file as short as one.
absl::Status CheckWeightsKind(const InputFile& file);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_FILE_KIND_H_
