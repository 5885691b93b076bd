#include "ops/graph/attributes.h"

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

}  // namespace beamwright::ops
