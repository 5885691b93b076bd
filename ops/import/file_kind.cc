#include "ops/import/file_kind.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kLfs = "version https://git-lfs.github.com/spec/";
constexpr int64_t kMaxLfsPointer = 1024;  // as Git LFS itself has it

absl::StatusOr<std::string> Head(const InputFile& file) {
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), 64)), '\0');
  BW_RETURN_IF_ERROR(file.Read(0, static_cast<int64_t>(head.size()), head.data()));
  return head;
}

}  // namespace

absl::Status CheckWeightsKind(const InputFile& file) {
  BW_ASSIGN_OR_RETURN(const std::string head, Head(file));
  return absl::StartsWith(head, kLfs) && file.size() < kMaxLfsPointer
             ? Invalid("is a Git LFS pointer, not the file itself; 'git lfs pull' fetches it")
             : absl::OkStatus();
}

absl::Status CheckFileKind(const InputFile& file) {
  BW_RETURN_IF_ERROR(CheckWeightsKind(file));
  BW_ASSIGN_OR_RETURN(const std::string head, Head(file));
  if (absl::StartsWith(head, absl::string_view("PK\x03\x04"))) {
    return Invalid(
        "is a zip archive; unpack it, or, if it is a PyTorch file, export the model to ONNX");
  }
  if (absl::StartsWith(head, absl::string_view("\x1f\x8b"))) {
    return Invalid("is compressed with gzip; unpack it");
  }
  if (head.size() >= 8 && head.substr(4, 4) == "ORTM") {
    return Invalid("is in ONNX Runtime's own format (.ort); give the .onnx file it was made from");
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
