// JsonWriter: JSON text, written in one pass. Keys, order and numbers come out exactly as they are
// put in.
#ifndef BEAMWRIGHT_OPS_TOOLS_JSON_H_
#define BEAMWRIGHT_OPS_TOOLS_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace beamwright::ops {

// The caller balances Begin and End and gives every member of an object a key; the writer sets
// commas and indentation. Not thread-safe.
class JsonWriter {
 public:
  JsonWriter& Key(absl::string_view key);
  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }
  // Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& String(absl::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Double(double value);  // null for infinities and NaN, which JSON lacks
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  JsonWriter& Raw(absl::string_view value);
  void Separate();
  void AppendQuoted(absl::string_view value);

  std::string text_;
  int depth_ = 0;
  bool first_ = true;       // nothing in the innermost bracket yet
  bool after_key_ = false;  // the next value follows its key
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_TOOLS_JSON_H_
