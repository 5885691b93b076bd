// Attributes of nodes with their types, and names of nodes and ports for messages. An attribute
// that is absent gives the caller's fallback; one of another type is an error. An integer is
// accepted where a number is wanted, since text formats write 1 for 1.0. Attributes are shared
// between copies of a node until one of them is changed.
#include "ops/graph/graph.h"

#include <algorithm>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

template <typename T>
absl::StatusOr<T> Get(const Attributes& attributes, const std::string& name, T fallback,
                      absl::string_view kind) {
  const auto it = attributes.values().find(name);
  if (it == attributes.values().end()) {
    return fallback;
  }
  if (const T* value = std::get_if<T>(&it->second)) {
    return *value;
  }
  // An empty list has no kind.
  if constexpr (!std::is_same_v<T, std::string> && !std::is_arithmetic_v<T>) {
    if (const auto* text = std::get_if<std::string>(&it->second);
        text != nullptr && text->empty()) {
      return T();
    }
  }
  return Invalid("attribute '", name, "' must be ", kind);
}

}  // namespace

void Attributes::Set(std::string name, AttributeValue value) {
  // In place where they are not shared: a hostile node may have a hundred thousand.
  if (values_ == nullptr || values_.use_count() > 1) {
    values_ = std::make_shared<Map>(values());
  }
  (*values_)[std::move(name)] = std::move(value);
}

const Attributes::Map& Attributes::values() const {
  static const Map& none = *new Map();
  return values_ == nullptr ? none : *values_;
}

absl::StatusOr<int64_t> Attributes::Int(const std::string& name, int64_t fallback) const {
  return Get<int64_t>(*this, name, fallback, "an integer");
}

absl::StatusOr<double> Attributes::Float(const std::string& name, double fallback) const {
  const auto it = values().find(name);
  if (it != values().end()) {
    if (const int64_t* value = std::get_if<int64_t>(&it->second)) {
      return static_cast<double>(*value);
    }
  }
  return Get<double>(*this, name, fallback, "a number");
}

absl::StatusOr<bool> Attributes::Bool(const std::string& name, bool fallback) const {
  return Get<bool>(*this, name, fallback, "true or false");
}

absl::StatusOr<std::string> Attributes::String(const std::string& name,
                                               std::string fallback) const {
  return Get<std::string>(*this, name, std::move(fallback), "a string");
}

absl::StatusOr<std::vector<int64_t>> Attributes::Ints(const std::string& name,
                                                      std::vector<int64_t> fallback) const {
  return Get<std::vector<int64_t>>(*this, name, std::move(fallback), "a list of integers");
}

absl::StatusOr<std::vector<double>> Attributes::Floats(const std::string& name,
                                                       std::vector<double> fallback) const {
  const auto it = values().find(name);
  if (it != values().end()) {
    if (const auto* value = std::get_if<std::vector<int64_t>>(&it->second)) {
      return std::vector<double>(value->begin(), value->end());
    }
  }
  return Get<std::vector<double>>(*this, name, std::move(fallback), "a list of numbers");
}

absl::StatusOr<std::vector<std::string>> Attributes::Strings(
    const std::string& name, std::vector<std::string> fallback) const {
  return Get<std::vector<std::string>>(*this, name, std::move(fallback), "a list of strings");
}

std::string Describe(const Node& node) {
  return absl::StrCat(node.attributes.String(kFileOperator, node.op).value_or(node.op), " '",
                      node.name, "'");
}

std::string PortName(const Graph& graph, int node_index) {
  const Node& node = graph.node(node_index);
  if (node.op == "Result" && node.attributes.Has("port_name")) {
    return node.attributes.String("port_name", node.name).value_or(node.name);
  }
  if (node.op == "Result" && !node.inputs.empty() && node.inputs[0].present()) {
    const std::vector<std::string>& names = graph.info(node.inputs[0]).names;
    if (std::find(names.begin(), names.end(), node.name) != names.end()) {
      return node.name;
    }
    if (!names.empty()) {
      return names.front();
    }
  }
  if (!node.outputs.empty() && !node.outputs[0].names.empty()) {
    return node.outputs[0].names.front();
  }
  return node.name;
}

void SetFileOperator(const std::string& type, size_t begin, Graph& graph) {
  // Nodes in the bodies of a file's own loops bear their names already.
  const bool is_loop = type == "Loop" || type == "Scan" || type == "TensorIterator";
  for (size_t i = begin; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool is_port = node.op == "Constant" || node.op == "Parameter" || node.op == "Result";
    if (is_port || node.op == type || node.attributes.Has(kFileOperator)) {
      continue;
    }
    node.attributes.Set(kFileOperator, type);
    if (node.loop != nullptr && !is_loop) {
      auto loop = std::make_shared<Loop>(*node.loop);
      SetFileOperator(type, 0, loop->body);
      node.loop = std::move(loop);
    }
  }
}

}  // namespace beamwright::ops
