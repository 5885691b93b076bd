#include "ops/tools/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace beamwright::ops {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80                    ? 1
                        : lead >= 0xC2 && lead <= 0xDF ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) {
    text_.push_back(',');
  }
  if (depth_ > 0) {
    text_.push_back('\n');
    text_.append(static_cast<size_t>(depth_), ' ');
  }
  first_ = false;
}

JsonWriter& JsonWriter::Begin(char bracket) {
  Separate();
  text_.push_back(bracket);
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  --depth_;
  if (!first_) {
    text_.push_back('\n');
    text_.append(static_cast<size_t>(depth_), ' ');
  }
  text_.push_back(bracket);
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Raw(absl::string_view value) {
  Separate();
  absl::StrAppend(&text_, value);
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  Separate();
  AppendQuoted(key);
  text_.append(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) {
  Separate();
  AppendQuoted(value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) { return Raw(absl::StrCat(value)); }
JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Null() { return Raw("null"); }
JsonWriter& JsonWriter::Double(double value) {
  return std::isfinite(value) ? Raw(absl::StrFormat("%.17g", value)) : Null();
}

void JsonWriter::AppendQuoted(absl::string_view value) {
  text_.push_back('"');
  while (!value.empty()) {
    const size_t length = SequenceLength(value);
    const char lead = value[0];
    if (length == 0) {
      text_.append("\xEF\xBF\xBD");
    } else if (lead == '"' || lead == '\\') {
      text_.push_back('\\');
      text_.push_back(lead);
    } else if (static_cast<unsigned char>(lead) < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<int>(lead));
    } else {
      text_.append(value.data(), length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_.push_back('"');
}

}  // namespace beamwright::ops
