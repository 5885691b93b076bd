// Writes JSON by RapidJSON, compact or indented. Texts that are not valid UTF-8 get U+FFFD in the
// place of wrong bytes, so that the JSON is always valid. Floats are written with the fewest digits
// that give the same number back (std::to_chars); infinity and NaN, which JSON does not have,
// become null.
#include "ops/base/json_writer.h"

#include <charconv>
#include <cmath>
#include <variant>

#include "ops/base/rapidjson.h"
#include "ops/base/utf8.h"

namespace beamwright {
namespace {

// A std::string as RapidJSON writes into it.
struct Output {
  using Ch = char;
  void Put(char c) { text.push_back(c); }
  void Flush() {}

  std::string text;
};

using CompactWriter = rapidjson::Writer<Output>;
using IndentedWriter = rapidjson::PrettyWriter<Output>;

rapidjson::SizeType SizeOf(absl::string_view text) {
  return static_cast<rapidjson::SizeType>(text.size());
}

std::string WithReplacements(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const int length = Utf8Length(text);
    if (length > 0) {
      valid.append(text.data(), static_cast<size_t>(length));
    } else {
      valid.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(static_cast<size_t>(std::max(length, 1)));
  }
  return valid;
}

}  // namespace

struct JsonWriter::Writers {
  template <typename Call>
  void Do(Call call) {
    std::visit(call, writer);
  }

  // Calls with a text that is valid UTF-8.
  template <typename Call>
  void DoWithText(absl::string_view value, Call call) {
    if (CheckUtf8(value).ok()) {
      Do([&](auto& to) { call(to, value); });
    } else {
      const std::string valid = WithReplacements(value);
      Do([&](auto& to) { call(to, absl::string_view(valid)); });
    }
  }

  template <typename T>
  void Number(T value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    const auto size = static_cast<size_t>(end - text);
    Do([&](auto& to) { to.RawValue(text, size, rapidjson::kNumberType); });
  }

  Output output;
  std::variant<CompactWriter, IndentedWriter> writer;
};

JsonWriter::JsonWriter(Style style) : writers_(std::make_unique<Writers>()) {
  if (style == Style::kCompact) {
    writers_->writer.emplace<CompactWriter>(writers_->output);
  } else {
    writers_->writer.emplace<IndentedWriter>(writers_->output).SetIndent(' ', 1);
  }
}

JsonWriter::~JsonWriter() = default;

const std::string& JsonWriter::text() const { return writers_->output.text; }

JsonWriter& JsonWriter::Key(absl::string_view key) {
  writers_->DoWithText(key,
                       [](auto& to, absl::string_view text) { to.Key(text.data(), SizeOf(text)); });
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) {
  writers_->DoWithText(
      value, [](auto& to, absl::string_view text) { to.String(text.data(), SizeOf(text)); });
  return *this;
}

JsonWriter& JsonWriter::BeginObject() {
  writers_->Do([](auto& to) { to.StartObject(); });
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  writers_->Do([](auto& to) { to.EndObject(); });
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  writers_->Do([](auto& to) { to.StartArray(); });
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  writers_->Do([](auto& to) { to.EndArray(); });
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  writers_->Do([value](auto& to) { to.Int64(value); });
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  writers_->Do([value](auto& to) { to.Uint64(value); });
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  writers_->Number(value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  if (!std::isfinite(value)) {
    return Null();
  }
  writers_->Number(value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  writers_->Do([value](auto& to) { to.Bool(value); });
  return *this;
}

JsonWriter& JsonWriter::Null() {
  writers_->Do([](auto& to) { to.Null(); });
  return *this;
}

JsonWriter& JsonWriter::Json(absl::string_view value) {
  writers_->Do(
      [value](auto& to) { to.RawValue(value.data(), value.size(), rapidjson::kObjectType); });
  return *this;
}

}  // namespace beamwright
