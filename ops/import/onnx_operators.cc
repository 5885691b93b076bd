#include "ops/import/onnx_operators.h"

#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ops/base/check.h"
#include "ops/import/onnx_sequences.h"

namespace beamwright::ops {
namespace {

using Table = absl::flat_hash_map<std::string, OnnxOperator>;

const Table& StandardTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    for (const auto family : {OnnxActivations, OnnxAttention, OnnxControlFlow, OnnxConvolutions,
                              OnnxCreation, OnnxElementwise, OnnxGather, OnnxLinearStates,
                              OnnxMatMul, OnnxMovement, OnnxNormalization, OnnxQuantized,
                              OnnxRecurrent, OnnxReductions, OnnxShapes, OnnxSignal}) {
      for (OnnxOperator& op : family()) {
        BW_CHECK(result->emplace(op.name, op).second);
      }
    }
    return result;
  }();
  return *table;
}

// Contributed operators, all of version 1.
const Table& MicrosoftTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    OnnxOperator gelu = StandardTable().at("Gelu");
    gelu.versions = {1};
    result->emplace("Gelu", gelu);
    for (const auto family : {OnnxMicrosoftAttention, OnnxMicrosoftFused, OnnxMicrosoftLinearStates,
                              OnnxMicrosoftQuantized, OnnxMicrosoftRecurrent}) {
      for (OnnxOperator& op : family()) {
        BW_CHECK(result->emplace(op.name, op).second);
      }
    }
    return result;
  }();
  return *table;
}

const Table& SequenceTable() {
  static const auto* const table = [] {
    auto* result = new Table;
    for (OnnxOperator& op : OnnxSequenceOperators()) {
      result->emplace(op.name, op);
    }
    return result;
  }();
  return *table;
}

const Table* TableOf(absl::string_view domain) {
  return domain.empty()                  ? &StandardTable()
         : domain == "com.microsoft"     ? &MicrosoftTable()
         : domain == kOnnxSequenceDomain ? &SequenceTable()
                                         : nullptr;
}

}  // namespace

int OnnxOperator::VersionAt(int64_t opset) const {
  int found = 0;
  for (const int version : versions) {
    found = version <= opset ? version : found;
  }
  return found;
}

const OnnxOperator* FindOnnxOperator(absl::string_view domain, absl::string_view name) {
  const Table* table = TableOf(domain);
  if (table == nullptr) {
    return nullptr;
  }
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

std::vector<const OnnxOperator*> AllOnnxOperators(absl::string_view domain) {
  std::map<absl::string_view, const OnnxOperator*> sorted;
  for (const auto& [name, op] : *TableOf(domain)) {
    sorted[name] = &op;
  }
  std::vector<const OnnxOperator*> result;
  for (const auto& [name, op] : sorted) {
    result.push_back(op);
  }
  return result;
}

}  // namespace beamwright::ops
