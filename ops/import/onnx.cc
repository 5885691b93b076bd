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
#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "onnx/onnx_pb.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/import/onnx_graph.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_order.h"
#include "ops/import/onnx_outline.h"

namespace beamwright::ops {
namespace {

// What a model asks for that is not there, found before anything is translated, so that one error
// lists all of it.

// Unimplemented with every node, also in bodies and functions, that outputs need and whose operator
// is not known at the model's opset; the first 50 by name. Other errors: those of OrderOnnxNodes.
absl::Status CheckOnnxOperators(const onnx::GraphProto& graph, const OnnxImport& import,
                                const OnnxOpsets& opsets);

// Lists the operators of an ONNX model that are not supported, before it is translated, in loop
// bodies, branches and functions too, so that a user sees all at once; the list is cut after
// kMostListed, with a count of the rest, and remedies are added where there are some (OnnxRemedy).
//
// Nodes that no output needs are not checked, as they are not translated (OrderOnnxNodes), nor is
// the branch of an If that a constant condition rules out (UntakenBranch).

class Check {
 public:
  explicit Check(const OnnxImport& import) : import_(import) {}

  absl::Status Graph(const onnx::GraphProto& graph, const OnnxOpsets& opsets,
                     const std::string& where, int depth) {
    if (depth > kMaxLoopDepth) {
      return Invalid(where, "graphs are nested more than ", kMaxLoopDepth, " deep");
    }
    absl::StatusOr<absl::flat_hash_set<std::string>> given = GivenNames(graph);
    if (!given.ok()) {
      return Annotate(given.status(), absl::StrCat(where, "graph"));
    }
    const onnx::GraphProto* const outside = std::exchange(graph_, &graph);
    absl::Status status = Nodes(graph.node(), *given, OutputNames(graph), opsets, where, depth);
    graph_ = outside;
    return status;
  }

  absl::Status Result() const {
    if (count_ == 0) {
      return absl::OkStatus();
    }
    const std::string remedies = absl::StrJoin(remedies_, "; ");
    const int64_t unlisted = count_ - static_cast<int64_t>(listed_.size());
    return absl::UnimplementedError(absl::StrCat(
        count_, count_ == 1 ? " node has" : " nodes have", " an unsupported operator: ",
        absl::StrJoin(listed_, "; "), unlisted > 0 ? absl::StrCat("; and ", unlisted, " more") : "",
        remedies.empty() ? "" : absl::StrCat("; ", remedies)));
  }

 private:
  static constexpr int64_t kMostListed = 50;

  absl::Status Nodes(const OnnxNodes& nodes, const absl::flat_hash_set<std::string>& given,
                     const std::vector<std::string>& outputs, const OnnxOpsets& opsets,
                     const std::string& where, int depth) {
    absl::StatusOr<std::vector<int>> order = OrderOnnxNodes(nodes, given, outputs);
    if (!order.ok()) {
      return where.empty() ? order.status()
                           : absl::Status(order.status().code(),
                                          absl::StrCat(where, order.status().message()));
    }
    for (const int index : *order) {
      BW_RETURN_IF_ERROR(Node(nodes[index], index, opsets, where, depth));
    }
    return absl::OkStatus();
  }

  absl::Status Node(const onnx::NodeProto& node, int index, const OnnxOpsets& opsets,
                    const std::string& where, int depth) {
    const std::string domain(Domain(node.domain()));
    const auto function = import_.functions.find({domain, node.op_type()});
    if (function != import_.functions.end()) {
      return Function(function->second, absl::StrCat(where, Describe(node, index), ": function: "),
                      depth);
    }
    const int64_t opset = OpsetOf(opsets, domain);
    const OnnxOperator* op = FindOnnxOperator(domain, node.op_type());
    if (op == nullptr || op->VersionAt(opset) == 0) {
      if (const char* const remedy = OnnxRemedy(TypeName(node))) {
        remedies_.insert(remedy);
      }
      if (count_++ < kMostListed) {
        listed_.push_back(absl::StrCat(
            where, Describe(node, index),
            opset == 0 ? " of a domain without an opset" : absl::StrCat(" of opset ", opset),
            op == nullptr ? "" : absl::StrCat(", known from opset ", op->versions.front())));
      }
      return absl::OkStatus();
    }
    const char* const untaken = UntakenBranch(node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g() && attribute.name() != untaken) {
        BW_RETURN_IF_ERROR(Graph(attribute.g(), opsets,
                                 absl::StrCat(where, Describe(node, index), ": body: "),
                                 depth + 1));
      }
    }
    return absl::OkStatus();
  }

  // The branch of an If that a constant condition rules out, which is not translated either; "" if
  // missing.
  const char* UntakenBranch(const onnx::NodeProto& node) const {
    if (node.op_type() != "If" || node.input_size() != 1 || graph_ == nullptr) {
      return "";
    }
    const onnx::TensorProto* condition = nullptr;
    for (const onnx::TensorProto& initializer : graph_->initializer()) {
      condition = initializer.name() == node.input(0) ? &initializer : condition;
    }
    for (const onnx::NodeProto& other : graph_->node()) {
      const bool gives = other.op_type() == "Constant" && other.output_size() == 1 &&
                         other.output(0) == node.input(0);
      const onnx::AttributeProto* value =
          gives ? FindOnnxAttribute(other, "value", nullptr) : nullptr;
      condition = value != nullptr && value->has_t() ? &value->t() : condition;
    }
    const absl::StatusOr<Tensor> tensor =
        condition != nullptr && condition->data_type() == onnx::TensorProto::BOOL
            ? ReadInlineTensor(*condition)
            : Tensor();
    if (!tensor.ok() || tensor->dtype() != DType::kBool || tensor->num_elements() != 1) {
      return "";
    }
    return *tensor->data<bool>() ? "else_branch" : "then_branch";
  }

  absl::Status Function(const OnnxFunction& function, const std::string& where, int depth) {
    if (!seen_.insert(&function).second) {
      return absl::OkStatus();
    }
    const onnx::FunctionProto& proto = *function.proto;
    const absl::flat_hash_set<std::string> given(proto.input().begin(), proto.input().end());
    const onnx::GraphProto* const outside = std::exchange(graph_, nullptr);
    absl::Status status = Nodes(
        proto.node(), given, std::vector<std::string>(proto.output().begin(), proto.output().end()),
        function.opsets, where, depth);
    graph_ = outside;
    return status;
  }

  const OnnxImport& import_;
  const onnx::GraphProto* graph_ = nullptr;  // that is being checked
  std::set<const OnnxFunction*> seen_;
  int64_t count_ = 0;
  std::set<std::string> remedies_;
  std::vector<std::string> listed_;
};

absl::Status CheckOnnxOperators(const onnx::GraphProto& graph, const OnnxImport& import,
                                const OnnxOpsets& opsets) {
  Check check(import);
  BW_RETURN_IF_ERROR(check.Graph(graph, opsets, "", 0));
  return check.Result();
}

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
