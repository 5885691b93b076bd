// The target side of a model that searches by frames: which token, or blank, each column of its
// scores stands for. Toolkits differ: blank is the first column, the last one, or a token of the
// list; behind the tokens may stand the scores of durations.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_FRAME_TEXT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_FRAME_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "ops/import/onnx_outline.h"

namespace beamwright::tools {

// What is known of the scores.
struct FrameColumns {
  int64_t columns = -1;
  bool is_transducer = false;  // else CTC
  bool is_picture = false;     // the encoder reads pictures
  ops::Metadata metadata;      // of the graph files
};

struct FrameTextHints {
  std::string vocabulary;  // path; empty: none
  std::string blank;       // a token, or the number of a column; empty: look for it
  std::vector<int> durations;
};

struct FrameText {
  v1::TextConfig config;  // `vocabulary` is the file's name in the bundle
  std::string content;    // of that file
  int32_t blank = 0;
  std::vector<int> durations;  // empty: a standard transducer, or CTC
};

// InvalidArgument where columns and vocabulary do not fit each other, or nothing says which column
// is blank, with the flag that does.
absl::StatusOr<FrameText> ReadFrameText(const FrameColumns& columns, const FrameTextHints& hints,
                                        std::vector<std::string>& reasons);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_FRAME_TEXT_H_
