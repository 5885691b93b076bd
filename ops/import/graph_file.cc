// Reads a graph file by what its name ends in: .xml (OpenVINO IR), .onnx, or a part of a Marian
// model (.bin#encoder). A name that ends otherwise is refused with the file that is probably meant.
#include "ops/import/graph_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/marian.h"
#include "ops/kernels/kernels.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {

// What importers of all formats share: the check that a file of weights is no pointer of Git LFS
// (CheckWeightsKind), the operators that this build knows, and which files a graph may open.
// FilesBeside opens files next to the graph; a link that leads out of its folder, and out of the
// one that the caller allows, is refused, since graph files may come from anywhere.

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

absl::StatusOr<Tensor> ReadTensor(const InputFilePtr& file, int64_t offset, DType dtype,
                                  const Shape& shape) {
  const int64_t bytes = NumElements(shape) * SizeOf(dtype);
  return MakeConstant(dtype, shape, [=](std::byte* out) -> absl::Status {
    BW_RETURN_IF_ERROR(file->Read(offset, bytes, out));
    for (int64_t i = 0; dtype == DType::kBool && i < bytes; ++i) {
      out[i] = std::byte{out[i] != std::byte{0}};
    }
    return file->CheckUnchanged();
  });
}

namespace {

namespace fs = std::filesystem;

absl::StatusOr<fs::path> Canonical(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path.empty() ? fs::path(".") : path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot open '", path.string(), "'"));
  }
  return resolved;
}

bool IsBelow(const fs::path& path, const fs::path& root) {
  const fs::path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

OpenFileFunction FilesBeside(const std::string& graph_path, const std::string& allow_links) {
  return [=](const std::string& name) -> absl::StatusOr<InputFilePtr> {
    if (name == graph_path) {
      return InputFile::Open(name);
    }
    BW_ASSIGN_OR_RETURN(const fs::path folder, Canonical(fs::path(graph_path).parent_path()));
    BW_ASSIGN_OR_RETURN(const fs::path path, Canonical(name));
    bool allowed = IsBelow(path, folder);
    if (!allowed && !allow_links.empty()) {
      BW_ASSIGN_OR_RETURN(const fs::path root, Canonical(allow_links));
      allowed = IsBelow(path, root);
    }
    if (!allowed) {
      return Invalid("'", name, "' links to '", path.string(), "', outside of the model's folder",
                     allow_links.empty() ? "" : absl::StrCat(" and of '", allow_links, "'"),
                     "; --allow-links names a folder that links may lead into");
    }
    return InputFile::Open(path.string());
  };
}

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? std::string() : std::string(path.substr(0, slash + 1));
}

const OperatorSet& KnownOperatorSet() {
  static const auto* const set = new OperatorSet(KernelOperators());
  return *set;
}

namespace {

constexpr absl::string_view kXml = ".xml";
constexpr absl::string_view kOnnx = ".onnx";

absl::Status UnknownName(const std::string& path) {
  const char* remedy = "";
  if (absl::EndsWith(path, ".ort")) {
    remedy = "; .ort is ONNX Runtime's own format: give the .onnx file it was made from";
  } else if (absl::EndsWith(path, ".bin")) {
    remedy =
        "; of a Marian model name the part as well, .bin#encoder or .bin#decoder, and of an "
        "OpenVINO IR the .xml file";
  } else if (absl::EndsWith(path, ".npz")) {
    remedy = "; a Marian model in .npz is converted by `beamwright-graph init`";
  }
  return Invalid("'", path, "' is not the name of a graph file, which ends in ", kXml,
                 " (OpenVINO IR) or ", kOnnx, remedy);
}

absl::StatusOr<Graph> ReadMarianPart(const std::string& path, const OpenFileFunction& open) {
  const MarianGraphName name = ParseMarianGraphName(path);
  BW_ASSIGN_OR_RETURN(InputFilePtr file, open(name.path));
  absl::StatusOr<Graph> graph = ReadMarian(std::move(file), name.part);
  return graph.ok() ? std::move(graph)
                    : Annotate(graph.status(), absl::StrCat("'", name.path, "'"));
}

}  // namespace

bool IsGraphFileName(absl::string_view path) {
  return absl::EndsWith(path, kXml) || absl::EndsWith(path, kOnnx) || IsMarianGraphName(path);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const ImportOptions& options) {
  const std::string file = IsMarianGraphName(path) ? ParseMarianGraphName(path).path : path;
  return ReadGraph(path, FilesBeside(file, options.allow_links), options);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const OpenFileFunction& open,
                                const ImportOptions& options) {
  if (!IsGraphFileName(path)) {
    return UnknownName(path);
  }
  if (IsMarianGraphName(path)) {
    return ReadMarianPart(path, open);
  }
  return absl::EndsWith(path, kOnnx) ? ReadOnnx(path, open, options)
                                     : ReadOpenVinoIr(path, open, options);
}

}  // namespace beamwright::ops
