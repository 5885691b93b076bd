// The style of pictures and the page around them, as parts of the program (cmake/embed.cmake).
#ifndef BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_FILES_H_
#define BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::ops {

struct PictureFile {
  absl::string_view name;  // "picture.css"
  absl::string_view hash;  // not read here
  absl::string_view content;
};

// Generated.
absl::Span<const PictureFile> PictureFiles();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TOOLS_GRAPH_PICTURE_PICTURE_FILES_H_
