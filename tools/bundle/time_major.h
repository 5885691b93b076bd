// Encoders that read sources [length, rows, ...], as PyTorch's recurrent layers do without
// batch_first. The bundle's file has a Transpose in front, so that its source is [rows, length,
// ...] as everywhere else; results may count rows on any axis.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TIME_MAJOR_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TIME_MAJOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// The same ONNX file with the first two axes of `input` exchanged; that input is called
// RowsFirstName(input). InvalidArgument: the file is no ONNX model, or `input` has fewer axes.
absl::StatusOr<std::string> RowsFirst(const std::string& onnx, const std::string& input);
std::string RowsFirstName(const std::string& input);

// Why a graph's source is [length, rows, ...]; empty: it is not, or nothing says so. `given`: the
// file's graph; `rows_first`: that of RowsFirst, with the same other ports. Rows that are proven
// to stay apart in one of the two say it; else which of the two runs over a source of 5 positions.
std::string ReadsTimeFirst(const ops::Graph& given, const ops::Graph& rows_first,
                           const ops::EncoderRoles& roles);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TIME_MAJOR_H_
