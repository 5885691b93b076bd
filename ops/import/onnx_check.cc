// Lists the operators of an ONNX model that are not supported, before it is translated, in loop
// bodies, branches and functions too, so that a user sees all at once; the list is cut after
// kMostListed, with a count of the rest, and remedies are added where there are some (OnnxRemedy).
//
// Nodes that no output needs are not checked, as they are not translated (OrderOnnxNodes), nor is
// the branch of an If that a constant condition rules out (UntakenBranch).
#include "ops/import/onnx_check.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/import/onnx.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_order.h"
#include "ops/import/onnx_text.h"

namespace beamwright::ops {
namespace {

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

}  // namespace

absl::Status CheckOnnxOperators(const onnx::GraphProto& graph, const OnnxImport& import,
                                const OnnxOpsets& opsets) {
  Check check(import);
  BW_RETURN_IF_ERROR(check.Graph(graph, opsets, "", 0));
  return check.Result();
}

}  // namespace beamwright::ops
