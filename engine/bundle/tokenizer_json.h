// Members of a tokenizer.json, which may be missing, null or of another type. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_JSON_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_JSON_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "ops/base/rapidjson.h"

namespace beamwright::bundle {

using Json = rapidjson::Value;

inline absl::string_view Text(const Json& value) {
  return value.IsString() ? absl::string_view(value.GetString(), value.GetStringLength())
                          : absl::string_view();
}

// The member; null if the object has none, or if the value is null.
inline const Json* Member(const Json& object, const char* name) {
  if (!object.IsObject()) {
    return nullptr;
  }
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

inline bool IsTrue(const Json& object, const char* name, bool otherwise = false) {
  const Json* const value = Member(object, name);
  return value != nullptr && value->IsBool() ? value->GetBool() : otherwise;
}

inline absl::string_view TextOf(const Json& object, const char* name) {
  const Json* const value = Member(object, name);
  return value == nullptr ? absl::string_view() : Text(*value);
}

inline absl::string_view TypeOf(const Json& object) { return TextOf(object, "type"); }

// What a list named `list` holds if the object is a Sequence, or the object alone; empty if null.
inline std::vector<const Json*> Sequence(const Json* object, const char* list) {
  std::vector<const Json*> found;
  if (object == nullptr) {
    return found;
  }
  const Json* const values = TypeOf(*object) == "Sequence" ? Member(*object, list) : nullptr;
  if (values == nullptr || !values->IsArray()) {
    return {object};
  }
  for (const Json& value : values->GetArray()) {
    found.push_back(&value);
  }
  return found;
}

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_JSON_H_
