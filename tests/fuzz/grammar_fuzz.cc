// Patterns and JSON schemas of any kind, and texts that tokens spell under them. An input is 's' (a
// schema) or another byte (a pattern), the text, and behind a zero byte the choices of tokens.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/grammar/constraint.h"
#include "engine/grammar/expression.h"
#include "engine/grammar/program.h"
#include "ops/base/check.h"

namespace beamwright::grammar {
namespace {

// An end token, all bytes, and some tokens of several.
std::shared_ptr<const TokenTexts> Texts() {
  static const auto texts = [] {
    auto writes = std::make_shared<std::vector<std::string>>(1);
    for (int byte = 0; byte < 256; ++byte) {
      writes->emplace_back(1, static_cast<char>(byte));
    }
    for (const char* const text :
         {"true", "null", "\": ", "{\"", ", \"", "12", "\xC3\xA9", "ab "}) {
      writes->emplace_back(text);
    }
    return std::make_shared<const TokenTexts>(
        static_cast<int32_t>(writes->size()),
        [writes](int32_t token, bool) { return (*writes)[static_cast<size_t>(token)]; }, false);
  }();
  return texts;
}

absl::StatusOr<Program> Read(bool is_schema, absl::string_view text) {
  Grammar made;
  if (is_schema) {
    auto read = ReadJsonSchema(text);
    if (!read.ok()) {
      return read.status();
    }
    made = *std::move(read);
  } else {
    auto part = ReadRegex(text);
    if (!part.ok()) {
      return part.status();
    }
    made.rules.push_back(*std::move(part));
  }
  return Compile(made);
}

void Spell(absl::string_view input) {
  const size_t end = std::min(input.find('\0'), input.size());
  auto program = Read(input[0] == 's', input.substr(1, end - 1));
  if (!program.ok()) {
    BW_CHECK(absl::IsInvalidArgument(program.status()));
    BW_CHECK(!program.status().message().empty());
    return;
  }
  ConstrainedTexts texts(std::make_shared<const Constraint>("fuzz", *std::move(program), Texts(),
                                                            std::vector<int32_t>{0}));
  texts.MaySpell(true);
  int64_t state = texts.Start(true);
  std::vector<int32_t> allowed;
  for (const char choice : input.substr(end)) {
    allowed.clear();
    texts.AppendAllowed(state, allowed);
    BW_CHECK(std::is_sorted(allowed.begin(), allowed.end()));
    BW_CHECK(texts.IsComplete(state) == (!allowed.empty() && allowed[0] == 0));
    if (allowed.empty()) {
      return;
    }
    const int32_t token = allowed[static_cast<uint8_t>(choice) % allowed.size()];
    if (token == 0) {
      return;
    }
    state = texts.Next(state, token);
  }
}

}  // namespace
}  // namespace beamwright::grammar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.size() > 1 && input[0] != '\0') {
    beamwright::grammar::Spell(input);
  }
  return 0;
}
