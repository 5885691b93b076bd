// How an export laid out its encoder's axes: sources [length, rows, ...], and extents that it fixed
// at those of its example.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_LAYOUT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "ops/graph/graph.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// Encoders that read sources [length, rows, ...], as PyTorch's recurrent layers do without
// batch_first. The bundle's file has a Transpose in front, so that its source is [rows, length,
// ...] as everywhere else; results may count rows on any axis.

// The same ONNX file with the first two axes of `input` exchanged; that input is called
// RowsFirstName(input). InvalidArgument: the file is no ONNX model, or `input` has fewer axes.
absl::StatusOr<std::string> RowsFirst(const std::string& onnx, const std::string& input);
std::string RowsFirstName(const std::string& input);

// Why a graph's source is [length, rows, ...]; empty: it is not, or nothing says so. `given`: the
// file's graph; `rows_first`: that of RowsFirst, with the same other ports. Rows that are proven
// to stay apart in one of the two say it; else which of the two runs over a source of 5 positions.
std::string ReadsTimeFirst(const ops::Graph& given, const ops::Graph& rows_first,
                           const ops::EncoderRoles& roles);

// Extents that an export fixed at those of its example, where requests will bring others.

// One line for each, with what to export instead: the length of sources, and memory whose length
// the encoder varies. `encoder`: null if missing. Graphs as InferGraph leaves them.
std::vector<std::string> FixedExtents(const ops::Graph* encoder, const v1::EncoderConfig& config,
                                      const ops::Graph& decoder, const ops::DecoderRoles& roles,
                                      bool is_padded = false);

// Of an encoder alone.
// How many ids every source must have; 0: as many as it likes, or it has no ids.
int64_t FixedLength(const ops::Graph& encoder, const v1::EncoderConfig& config);

std::vector<std::string> FixedSource(const ops::Graph& encoder, const v1::EncoderConfig& config);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_ENCODER_LAYOUT_H_
