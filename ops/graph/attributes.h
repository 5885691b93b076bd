// Attributes of a node: named values of a few kinds. Importers fill them, operators read them by
// typed getters; an attribute that no operator reads is an error at load (see Validate), never a
// silent default.
#ifndef BEAMWRIGHT_OPS_GRAPH_ATTRIBUTES_H_
#define BEAMWRIGHT_OPS_GRAPH_ATTRIBUTES_H_

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace beamwright::ops {

using AttributeValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>>;

// Copies share their values until one of them is set: a graph is copied by each pass over it.
class Attributes {
 public:
  using Map = std::map<std::string, AttributeValue>;

  void Set(std::string name, AttributeValue value);
  bool Has(const std::string& name) const { return values().count(name) > 0; }
  const Map& values() const;

  // The attribute as a T, `fallback` if absent; InvalidArgument naming it if it has another kind.
  // Integers are taken where floats are asked for.
  absl::StatusOr<int64_t> Int(const std::string& name, int64_t fallback) const;
  absl::StatusOr<double> Float(const std::string& name, double fallback) const;
  absl::StatusOr<bool> Bool(const std::string& name, bool fallback) const;
  absl::StatusOr<std::string> String(const std::string& name, std::string fallback) const;
  absl::StatusOr<std::vector<int64_t>> Ints(const std::string& name,
                                            std::vector<int64_t> fallback) const;
  absl::StatusOr<std::vector<double>> Floats(const std::string& name,
                                             std::vector<double> fallback) const;
  absl::StatusOr<std::vector<std::string>> Strings(const std::string& name,
                                                   std::vector<std::string> fallback) const;

 private:
  std::shared_ptr<Map> values_;  // null: none
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_GRAPH_ATTRIBUTES_H_
