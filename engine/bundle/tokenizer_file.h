// Files that say how text is cut into tokens, not only which tokens there are: tokenizer.json of
// Hugging Face with byte-level BPE (GPT-2, GPT-NeoX, Llama 3, Qwen), and RWKV's vocabulary, whose
// longest token is taken at each place.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_FILE_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/bundle/split_pattern.h"
#include "ops/base/rapidjson.h"

namespace beamwright::bundle {

// Members of a tokenizer.json, which may be missing, null or of another type.

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

struct TokenizerFile {
  struct Token {
    std::string text;   // as the file writes it; empty: no token has this id
    std::string bytes;  // that it stands for
  };
  struct Added {
    int32_t id = 0;
    // White space before and behind it, which it takes in.
    bool takes_left = false;
    bool takes_right = false;
    bool is_special = false;  // text leaves it out: languages and tasks of Whisper, for example
  };
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t joined = 0;
  };
  // One after the other, each on what the one before left.
  struct Split {
    SplitPattern pattern;
    bool adds_space = false;  // in front of a piece without one, before it is split
    bool splits = true;
  };

  std::vector<Token> tokens;  // by id
  std::vector<Added> added;   // found in text before it is split
  std::vector<Split> splits;
  std::vector<Merge> merges;       // by rank
  bool takes_longest = false;      // RWKV: no merges
  bool takes_whole_words = false;  // a piece that is a token is that token, whatever merges say

  // InvalidArgument naming the member or line, and what is not read: other models than byte-level
  // BPE, normalisers but NFC (text is taken as NFC), other ways to split.
  static absl::StatusOr<TokenizerFile> Parse(absl::string_view content);
};

// Whether a vocabulary is such a file, by its beginning.
bool IsTokenizerFile(absl::string_view content);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_TOKENIZER_FILE_H_
