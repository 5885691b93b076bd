// Reads an ONNX file into a graph:
//
// 1. ParseModel: OutlineOnnx reads the file without the bytes of large tensors, CheckOnnxMemory
//    bounds what the parsed messages will take, and protobuf parses the outline.
// 2. ReadOpsets, ReadFunctions: versions of operators, and functions that the model defines, which
//    are expanded where they are called.
// 3. LowerOnnxSequences replaces sequences of tensors (onnx_sequences.cc).
// 4. CheckOnnxOperators lists all operators that are not supported before anything is translated.
// 5. AddParameters and TranslateOnnxGraph: an operator of ONNX becomes one or more operators of the
//    registry, by its version. Other faults are collected with the missing operators, so that all
//    are reported at once.
#include "ops/import/onnx.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "onnx/onnx_pb.h"
#include "ops/base/join_errors.h"
#include "ops/base/status.h"
#include "ops/import/file_kind.h"
#include "ops/import/files_beside.h"
#include "ops/import/onnx_calls.h"
#include "ops/import/onnx_check.h"
#include "ops/import/onnx_graph.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_outline.h"
#include "ops/import/onnx_sequences.h"
#include "ops/import/onnx_text.h"
#include "ops/import/onnx_wire.h"

namespace beamwright::ops {
namespace {

// Protobuf itself parses no more.
constexpr int64_t kMaxModelBytes = (int64_t{1} << 31) - 1;

absl::StatusOr<OnnxOpsets> ReadOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  OnnxOpsets opsets;
  for (const onnx::OperatorSetIdProto& import : imports) {
    const std::string domain(Domain(import.domain()));
    // Of several imports of a domain the last one counts, as in ONNX Runtime.
    opsets[domain] = import.version();
  }
  const auto standard = opsets.find("");
  if (standard != opsets.end() &&
      (standard->second < kOldestOpset || standard->second > kNewestOpset)) {
    return absl::UnimplementedError(absl::StrCat("opset ", standard->second, " is not supported; ",
                                                 kOldestOpset, " to ", kNewestOpset, " are"));
  }
  return opsets;
}

// Field 11 of FunctionProto, `attribute_proto`: newer than the schema that the messages were
// generated from.
absl::StatusOr<std::vector<onnx::AttributeProto>> ReadDefaults(
    const onnx::FunctionProto& function) {
  constexpr int kAttributeProto = 11;
  std::vector<onnx::AttributeProto> defaults;
  const google::protobuf::UnknownFieldSet& unknown =
      function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const google::protobuf::UnknownField& field = unknown.field(i);
    if (field.number() == kAttributeProto &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      onnx::AttributeProto attribute;
      if (!attribute.ParseFromString(field.length_delimited())) {
        return Invalid("attribute_proto is not a valid attribute");
      }
      defaults.push_back(std::move(attribute));
    }
  }
  return defaults;
}

absl::Status ReadFunctions(const onnx::ModelProto& model, OnnxImport& import) {
  constexpr int kMaxAttributes = 256;
  for (const onnx::FunctionProto& proto : model.functions()) {
    const std::string where = absl::StrCat("function ", Quote(proto.name()));
    OnnxFunction function;
    function.proto = &proto;
    function.copied_bytes = CopiedBytes(proto);
    absl::StatusOr<OnnxOpsets> opsets = ReadOpsets(proto.opset_import());
    if (!opsets.ok()) {
      return Annotate(opsets.status(), where);
    }
    function.opsets = *std::move(opsets);
    absl::StatusOr<std::vector<onnx::AttributeProto>> defaults = ReadDefaults(proto);
    if (!defaults.ok()) {
      return Annotate(defaults.status(), where);
    }
    function.defaults = *std::move(defaults);
    if (proto.attribute_size() + static_cast<int>(function.defaults.size()) > kMaxAttributes) {
      return Invalid(where, ": more than ", kMaxAttributes, " attributes");
    }
    // Since IR version 10 functions may share a name and differ in 'overload'. No exporter is known
    // to write them.
    if (!import.functions
             .emplace(std::make_pair(std::string(Domain(proto.domain())), proto.name()),
                      std::move(function))
             .second) {
      return Invalid(where, " of domain ", Quote(proto.domain()), " is defined twice");
    }
  }
  return absl::OkStatus();
}

absl::Status AddParameters(const onnx::GraphProto& graph, OnnxBuilder& builder, OnnxScope& scope) {
  absl::flat_hash_set<std::string> initializers;
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    initializers.insert(initializer.name());
  }
  for (const onnx::ValueInfoProto& input : graph.input()) {
    // In IR version 3 every initializer is listed as an input; since then it is the value of an
    // input that a caller may leave out, which no caller here gives.
    if (initializers.contains(input.name())) {
      continue;
    }
    absl::StatusOr<ValueInfo> info = OnnxValueInfo(input.type());
    if (info.ok() && info->dtype == DType::kUndefined) {
      info = Invalid("has no element type");
    }
    if (!info.ok()) {
      return Annotate(info.status(), absl::StrCat("input ", Quote(input.name())));
    }
    info->names = {input.name()};
    scope.Define(input.name(), builder.Parameter(input.name(), *std::move(info)));
  }
  return builder.status();
}

absl::StatusOr<onnx::ModelProto> ParseModel(const InputFile& file) {
  if (file.size() > kMaxModelBytes) {
    return Invalid("the model has ", file.size(), " bytes; at most ", kMaxModelBytes,
                   " are allowed");
  }
  absl::StatusOr<std::string> outline = OutlineOnnx(file);
  const absl::Status fits =
      outline.ok() ? CheckOnnxMemory(*outline, file.size()) : outline.status();
  if (!fits.ok()) {
    return absl::IsInvalidArgument(fits) ? Annotate(fits, "is not an ONNX model") : fits;
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(outline->data(), static_cast<int>(outline->size()))) {
    return Invalid(
        "is not an ONNX model: its bytes are malformed, or messages are nested too deep");
  }
  return model;
}

absl::StatusOr<Graph> ParseFile(const InputFilePtr& file, const OpenFileFunction& open,
                                const ImportOptions& options) {
  BW_ASSIGN_OR_RETURN(onnx::ModelProto model, ParseModel(*file));
  if (!model.has_graph()) {
    return Invalid("is not an ONNX model: it has no graph");
  }
  OnnxImport import{OnnxTensors(file, open)};
  import.keep_unknown = options.keep_unknown_layers;
  import.file_bytes = file->size();
  BW_ASSIGN_OR_RETURN(OnnxOpsets opsets, ReadOpsets(model.opset_import()));
  if (!opsets.contains("")) {
    return Invalid("no opset is imported for the default domain");
  }
  if (!opsets.emplace(kOnnxSequenceDomain, 1).second) {
    return Invalid("opset import: domain ", Quote(kOnnxSequenceDomain), " is reserved");
  }
  BW_RETURN_IF_ERROR(ReadFunctions(model, import));
  BW_RETURN_IF_ERROR(LowerOnnxSequences(*model.mutable_graph()));
  if (!options.keep_unknown_layers) {
    const absl::Status known = CheckOnnxOperators(model.graph(), import, opsets);
    if (absl::IsUnimplemented(known)) {
      import.faults.push_back(known);  // what else there is comes with it
    } else {
      BW_RETURN_IF_ERROR(known);
    }
  }
  OnnxBuilder builder(options.keep_unknown_layers || !import.faults.empty());
  OnnxScope scope(builder, import.tensors, nullptr);
  BW_RETURN_IF_ERROR(AddParameters(model.graph(), builder, scope));
  const absl::Status translated =
      TranslateOnnxGraph(model.graph(), OnnxPlace{import, opsets, scope});
  BW_RETURN_IF_ERROR(JoinErrors(import.faults));
  BW_RETURN_IF_ERROR(translated);
  Graph graph = builder.Take();
  graph.name = model.graph().name();
  if (graph.results.empty()) {
    return Invalid("the graph has no outputs, so it computes nothing");
  }
  return graph;
}

}  // namespace

absl::StatusOr<Graph> ParseOnnx(absl::string_view bytes, const ReadFileFunction& read,
                                const ImportOptions& options) {
  const auto open = [&](const std::string& name) -> absl::StatusOr<InputFilePtr> {
    BW_ASSIGN_OR_RETURN(std::string content, read(name));
    return InputFile::OfContent(std::move(content));
  };
  return ParseFile(InputFile::OfContent(std::string(bytes)), open, options);
}

std::vector<OnnxOperatorLine> ListOnnxOperators() {
  std::vector<OnnxOperatorLine> lines;
  for (const OnnxOperator* op : AllOnnxOperators()) {
    lines.push_back({op->name, std::max(op->versions.front(), kOldestOpset), op->becomes});
  }
  constexpr absl::string_view kMicrosoft = "com.microsoft";
  for (const OnnxOperator* op : AllOnnxOperators(kMicrosoft)) {
    lines.push_back({absl::StrCat(kMicrosoft, ".", op->name), op->versions.front(), op->becomes});
  }
  return lines;
}

const char* OnnxRemedy(absl::string_view type) {
  if (absl::StartsWith(type, "com.microsoft.nchwc.")) {
    return "com.microsoft.nchwc is what ONNX Runtime writes for one kind of machine: give the "
           "model "
           "as it was before its optimiser, or save it with ORT_ENABLE_EXTENDED instead of "
           "ORT_ENABLE_ALL";
  }
  if (absl::StrContains(type, "Sequence")) {
    return "of sequences, lists are supported that grow by one tensor at their end in each "
           "iteration of a Loop and are then joined (torch.stack, torch.cat), and tensors taken "
           "apart (unbind)";
  }
  return nullptr;
}

absl::StatusOr<Graph> ReadOnnx(const std::string& path, const OpenFileFunction& open,
                               const ImportOptions& options) {
  BW_ASSIGN_OR_RETURN(const InputFilePtr file, open(path));
  absl::Status status = CheckFileKind(*file);
  if (status.ok()) {
    const std::string folder = FolderOf(path);
    absl::StatusOr<Graph> graph = ParseFile(
        file, [&](const std::string& name) { return open(folder + name); }, options);
    if (graph.ok()) {
      return graph;
    }
    status = graph.status();
  }
  return Annotate(status, absl::StrCat("'", path, "'"));
}

absl::StatusOr<Graph> ReadOnnx(const std::string& path, const ImportOptions& options) {
  return ReadOnnx(path, FilesBeside(path, options.allow_links), options);
}

}  // namespace beamwright::ops
